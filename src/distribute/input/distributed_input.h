#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "cohort/distributed_dataset.h"
#include "cohort/strategy_extended.h"
#include "data/auto_shard.h"
#include "data/common_description.h"
#include "data/iterator.h"
#include "data/node.h"
#include "tensor/devices.h"

namespace cohort {
class StrategyExtended;
}

namespace cohort::internal {

class InputWalks;

// What a DistributedDataset refers to: the pipelines of this worker, and the devices that get their
// elements.
struct DistributedInput {
  // The strategy in whose scope next() may be called; null for the default strategy.
  Strategy* strategy = nullptr;
  InputContext context = InputContext();  // of this worker
  // One for all local replicas, which is dealt out to them, or one for each. Of several workers
  // they only describe the elements: the workers agree on their parts when a walk begins.
  std::vector<data::Dataset> pipelines = {};
  std::shared_ptr<InputWalks> walks = {};
  // One for each local replica; null leaves elements where they are.
  std::vector<const Device*> devices = {};
  data::Cardinality cardinality = data::kUnknownCardinality;  // of this worker's dataset
  // Whether next() fills a last uneven step up, unless the data of all workers is endless.
  bool fills_partial_steps = true;
  // Builds the input again, for the worker that this thread builds for. Set for strategies with
  // remote workers, whose inputs cannot be iterated in this process.
  std::function<std::shared_ptr<const DistributedInput>()> rebuild = {};
  StrategyExtended* extended = nullptr;  // what workers tell each other goes through this

  size_t replicas() const { return devices.size(); }
  bool several_workers() const { return context.num_input_pipelines() > 1; }
  // What one replica's elements are, if that is known without making one.
  std::optional<data::ElementSpec> static_spec() const;
};

// The number of elements that all pipelines have in common.
data::Cardinality common_cardinality(const std::vector<data::Dataset>& pipelines);

// What the user distributes, on this worker.
struct InputSource {
  std::vector<data::Dataset> datasets = {};
  // One dataset, which all workers have alike and of which each gets a part; else each has its own.
  bool is_shared = false;
  data::internal::InputShare share = {};
  int64_t read_ahead = 0;  // elements of each pipeline that are made in advance, at least
};

// What all workers have in common in one pass over their data.
struct InputTerms {
  int64_t pass = 0;  // its number: the orders of shuffles follow from it
  data::internal::ShardPlan plan = {};
  // What all pipelines take from the chief's first one.
  std::vector<uint64_t> seeds = {};
  std::vector<data::internal::CommonCache> caches = {};
  bool endless = false;                           // the data of all workers is
  std::optional<int64_t> samples = std::nullopt;  // of all workers in each step, where it is static
};

// One pass over the pipelines of this worker, as far as it has been read.
struct InputWalk {
  std::vector<data::Iterator> iterators;
  // For the step to come, one for each replica; nullopt where the data has ended.
  std::vector<std::optional<data::Element>> drawn = {};
};

// Begins the walks over a distributed dataset. Thread-safe.
//
// The user's dataset on the chief counts the passes. Iterators that one process makes by itself do
// not count, and the count goes on when the dataset is distributed again.
class InputWalks {
 public:
  explicit InputWalks(InputSource source) : source_(std::move(source)) {}

  // The terms of the next pass, or of the pass of the given number. All workers call this when they
  // begin a walk. Throws this worker's failure; Cancelled if another worker failed; InvalidArgument
  // if a dataset that is to be divided differs between workers; FailedPrecondition if the workers
  // begin different passes.
  InputTerms agree(const DistributedInput& input, std::optional<int64_t> pass);
  // Notes that a pass of that number began, in this process or an earlier one.
  void include_pass(int64_t number);
  // The pass from its beginning, or from the positions of the pipelines' iterators.
  InputWalk open(const InputTerms& terms, const std::vector<std::string>* positions = nullptr);
  // The pipelines of the only worker.
  std::vector<data::Dataset> build_alone();
  // Describes one replica's elements, by the dataset's description, by learn_spec(), or by the
  // first element, with which the next pass then begins. Several workers make no element for this,
  // because only all of them together can begin a pass. Throws FailedPrecondition if nothing is
  // known.
  data::ElementSpec element_spec(const DistributedInput& input);
  void learn_spec(const data::ElementSpec& spec);
  // Throws FailedPrecondition: the kind of the elements is unknown without an element.
  [[noreturn]] void raise_undescribed() const;

 private:
  struct Pipelines {
    InputTerms terms;
    std::vector<data::Dataset> all;
  };
  struct LookedAt {
    int64_t pass;
    InputWalk walk;
  };

  bool is_alone() const { return source_.share.workers == 1; }
  // Whether pipelines, of this worker or of several, must see one order.
  bool has_peers() const { return !is_alone() || source_.datasets.size() > 1; }
  InputTerms own_terms(std::optional<int64_t> pass);
  const std::vector<std::string>& stages();
  const std::vector<data::Dataset>& build(const InputTerms& terms);
  InputWalk begin(const InputTerms& terms, const std::vector<std::string>* positions);
  std::optional<data::Element> look();

  const InputSource source_;
  // Of the thread that agrees with the other workers or draws an element. Guards everything below.
  Turn turn_;
  std::optional<Pipelines> pipelines_;              // of the last terms
  std::optional<LookedAt> looked_at_;               // what the next pass begins with
  std::optional<std::vector<std::string>> stages_;  // of all datasets, once described
  std::optional<data::ElementSpec> spec_;           // once an element has shown it
};

// The rows of an element; 1 for an element that is not a batch, Shape::kUnknownDim if not known.
int64_t sample_count(const data::Element& element);

// Whether a last step for which some replicas have no element is filled with empty elements: as the
// input's rule says, or in any case.
enum class LastStep : uint8_t { ByRule, Filled };

// A walk over a DistributedInput. Thread-safe. For traced functions, an element is a tuple of the
// elements of the local replicas, and of the number of samples of all workers if that is counted.
class DistributedInputIterator : public data::internal::IteratorBase {
 public:
  // Goes on at a position, if one is given. With a number, this is the pass of that number, from 0
  // on, instead of the next one.
  explicit DistributedInputIterator(std::shared_ptr<const DistributedInput> input,
                                    const std::string* position = nullptr,
                                    std::optional<int64_t> number = std::nullopt);

  // nullopt at the end.
  std::optional<DistributedElement> next_step(LastStep last_step);
  std::optional<data::Element> next() override;
  std::string save() override;
  std::string describe_dataset() const override;
  // Describes one replica's elements. If only an element shows what they are, begins the pass, on
  // all workers, and draws one. Throws FailedPrecondition if the data is empty.
  data::ElementSpec replica_spec() const;

  // Throws unless this thread may call next().
  void check_caller() const;
  // The step whose tensors are these, from left to right.
  DistributedElement step_of(std::span<const Tensor> tensors) const;
  const DistributedInput& input() const { return *input_; }

 protected:
  std::optional<data::ElementSpec> find_spec() const override;

 private:
  void restore(const std::string& position);
  // Settles, together with all workers, what the walk is over.
  void agree() const;
  // Opens the pipelines unless they are open.
  void begin() const;
  void learn_spec(const std::optional<data::Element>& element) const;
  // Draws an element unless something is known of the elements.
  void look() const;
  // Draws for the next replica.
  void draw_one() const;
  // Completes what is drawn for the step to come.
  void draw();
  // The totals of the local replicas, given the outcome of draw().
  InputTotals totals(const Status& drawing) const;
  InputTotals totals_of_all_workers(const Status& drawing);
  // After draw() failed on some worker: throws Cancelled that names the worker, unless it failed on
  // this one.
  void on_failure(const Status& drawing) const;
  bool is_complete() const;
  // Whether next() says how many samples all workers have.
  bool counts_samples() const;
  bool is_alone() const { return input_->replicas() == 1 && !input_->several_workers(); }
  [[noreturn]] void raise_end_of_endless_data() const;
  DistributedElement deliver(std::optional<int64_t> global_samples);
  // Before another step: warns, once for each dataset, if a replica got no rows of the last batch.
  void warn_of_rowless_replicas();
  const data::Element& empty_element();
  // Whether this worker needs an empty element and cannot make one without the other workers.
  bool lacks_empty_element();
  // Gets an empty element from the other workers. All workers call this when one lacks it.
  void learn_empty_element();

  // A position that was restored, until its walk begins.
  struct Restored {
    std::vector<std::string> positions;
    std::vector<std::optional<data::Element>> drawn;
  };

  const std::shared_ptr<const DistributedInput> input_;

  // Of the thread that takes a step, which waits for the other workers. Guards everything below.
  mutable Turn turn_;
  std::optional<int64_t> number_;
  std::optional<Restored> restored_;
  mutable std::optional<InputTerms> terms_;  // once the workers have agreed
  // Set once it has begun. Between calls it holds drawn elements only after an error, or after a
  // look at the elements, so that neither loses any.
  mutable std::optional<InputWalk> walk_;
  mutable std::optional<data::ElementSpec> spec_;  // of the elements; once known
  bool ended_ = false;
  std::vector<int64_t> rowless_counts_;  // of the last step, if a batch had no rows for a replica
  bool warned_of_rowless_ = false;
  std::optional<data::Element> empty_;  // for replicas without data; once needed
};

}  // namespace cohort::internal
