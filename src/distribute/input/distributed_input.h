#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "cohort/distributed_dataset.h"
#include "data/auto_shard.h"
#include "data/common_description.h"
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
  int64_t cardinality = data::kUnknownCardinality;  // of this worker's dataset
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
int64_t common_cardinality(const std::vector<data::Dataset>& pipelines);

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
  int64_t next_pass() const;
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

}  // namespace cohort::internal
