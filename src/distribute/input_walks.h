#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "data/common_description.h"
#include "data/node.h"
#include "data/replica_input.h"
#include "distribute/distributed_input.h"

namespace cohort::internal {

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

// The pipelines of this worker before it takes the chief's seeds.
std::vector<data::Dataset> divided_pipelines(const InputSource& source,
                                             const data::internal::ShardPlan& plan);

// Begins the walks over a distributed dataset. Thread-safe.
//
// Passes are counted at the dataset that the user has, on the chief: iterators that one process
// makes by itself do not count, and who distributes the dataset again goes on with the count.
class InputWalks {
 public:
  explicit InputWalks(InputSource source) : source_(std::move(source)) {}

  // What holds for the next pass, or for that of the given number. All workers call it when they
  // begin a walk. Throws what failed here, Aborted where another worker failed, InvalidArgument
  // where a dataset that is to be divided is not the same on all workers, FailedPrecondition where
  // they begin different passes.
  InputTerms agree(const DistributedInput& input, std::optional<int64_t> pass);
  // Says that a pass of that number began, in this process or an earlier one.
  void include_pass(int64_t number);
  // The pass from its beginning, or from the positions of the pipelines' iterators.
  InputWalk open(const InputTerms& terms, const std::vector<std::string>* positions = nullptr);
  // The pipelines of the only worker.
  std::vector<data::Dataset> build_alone();
  // What one replica's elements are, from the description, from what learn_spec() was told, or from
  // the first element, with which the next pass begins. Several workers make no element for this,
  // because only all of them together can begin a pass. Throws FailedPrecondition when it is not
  // known.
  data::ElementSpec element_spec(const DistributedInput& input);
  void learn_spec(const data::ElementSpec& spec);
  // Throws FailedPrecondition, which says that no element shows what elements are.
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
  std::mutex mutex_;                                // guards everything below
  std::optional<Pipelines> pipelines_;              // of the last terms
  std::optional<LookedAt> looked_at_;               // what the next pass begins with
  std::optional<std::vector<std::string>> stages_;  // of all datasets, once described
  std::optional<data::ElementSpec> spec_;           // once an element has shown it
};

}  // namespace cohort::internal
