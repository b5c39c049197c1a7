#pragma once

#include <cstdint>
#include <iosfwd>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cohort/data.h"
#include "cohort/values.h"

// Datasets that give every replica its part.

namespace cohort {

class Strategy;
namespace internal {
struct DistributedInput;
class DistributedInputIterator;
}  // namespace internal

// What a function that makes one input pipeline knows about all of them.
class InputContext {
 public:
  explicit InputContext(int num_input_pipelines = 1, int input_pipeline_id = 0,
                        int num_replicas_in_sync = 1)
      : pipelines_(num_input_pipelines), id_(input_pipeline_id), replicas_(num_replicas_in_sync) {}

  int num_input_pipelines() const { return pipelines_; }
  int input_pipeline_id() const { return id_; }
  int num_replicas_in_sync() const { return replicas_; }
  // Throws InvalidArgument unless the global batch divides evenly.
  int64_t get_per_replica_batch_size(int64_t global_batch_size) const;
  std::string to_string() const;
  friend std::ostream& operator<<(std::ostream& out, const InputContext& context);

 private:
  int pipelines_;
  int id_;
  int replicas_;
};

enum class InputReplicationMode {
  PerWorker,   // one pipeline, dealt out to the replicas
  PerReplica,  // one pipeline for each; MirroredStrategy::distribute_datasets_from_function only
};

struct InputOptions {
  bool fetch_to_device = true;  // elements are made on the replica's device, not on the host
  InputReplicationMode replication_mode = InputReplicationMode::PerWorker;
  bool place_dataset_on_device = false;  // the pipeline too; with PerReplica, not fetch_to_device
  int per_replica_buffer_size = 1;       // elements prefetched for each replica; 0 = none
};

// What the workers tell each other about one step of a distributed dataset: numbers that add up.
struct InputTotals {
  int64_t replicas_with_data = 0;
  int64_t samples = 0;
  int64_t failed_workers = 0;  // whose input pipeline threw
  // That have no data for a replica and do not know what an empty element looks like.
  int64_t undescribed_workers = 0;
};

// What the replicas get in one step: an element for each. A replica without data in the last step
// gets an empty one (zero rows); sample_counts() tells, so that means come out right.
class DistributedElement : public PerReplica<data::Element> {
 public:
  // No counts: they are not known, because the sizes are not. An undefined `global_batch_size`:
  // this process does not know it.
  DistributedElement(std::vector<std::optional<data::Element>> elements, bool collapsed,
                     std::vector<int64_t> sample_counts, Tensor global_batch_size);
  // Rows of each local replica's element, 0 for a replica that has no data any more. An element
  // that is not a batch is one sample. Throws FailedPrecondition in traced code that does not know
  // the sizes; there an element's own shape tells.
  const std::vector<int64_t>& sample_counts() const;
  // Whether the local replica has a sample. Throws InvalidArgument.
  bool has_data(size_t replica) const;
  // Samples of all replicas of all workers. Throws FailedPrecondition where they are not counted:
  // for endless data of several workers whose batches are not of one static size, because the
  // workers do not wait for each other, and in traced functions, where global_batch_size() tells.
  // All workers count, or none does.
  int64_t global_sample_count() const;
  bool knows_global_samples() const { return global_.defined() && !global_.is_symbolic(); }
  // The same as a scalar of int64, which a traced function has, too: each of its steps divides by
  // the samples of that step. Throws FailedPrecondition where they are not counted.
  Tensor global_batch_size() const;

 private:
  friend struct internal::LeafTensors<DistributedElement>;
  std::vector<int64_t> counts_;
  Tensor global_;  // undefined: not counted
};

// Walks over a distributed dataset. A handle: copies share the position. Thread-safe.
//
// Where the data may end in the middle of a step (sizes that are not static, or several workers),
// the replicas without data get empty elements in that last step. Where it should not, next() ends
// there and drops the elements of that step, while next_optional() hands them out.
class DistributedIterator {
 public:
  explicit DistributedIterator(std::shared_ptr<internal::DistributedInputIterator> impl);

  // Throws OutOfRange at the end, InvalidArgument inside a replica, FailedPrecondition inside
  // another strategy or while a graph is being built. An error of the pipeline says which stage and
  // which element; calling again goes on after that element.
  //
  // In code that function() traces, the elements' tensors are symbols, and each call of the traced
  // function takes the next step.
  DistributedElement next(Site site = Site::here());
  // nullopt at the end. Throws FailedPrecondition in code that is traced: C++ cannot branch there
  // on what a later run finds. Use next_as_optional() or reduce().
  std::optional<DistributedElement> next_optional();
  // next() for code that may be traced, which can branch on the end: see data::OptionalElement.
  data::OptionalElement<DistributedElement> next_as_optional(Site site = Site::here());

  // As data::Iterator has them. A traced epoch:
  //   const auto epoch = function([&](DistributedIterator it) {
  //     return it.reduce({Tensor(0.f)}, [&](auto state, const DistributedElement& batch) {
  //       const auto losses = strategy.run(step, batch);
  //       return std::vector{state[0] + strategy.reduce(ReduceOp::Sum, losses)};
  //     })[0];
  //   });
  using LoopBody =
      std::function<std::vector<Tensor>(std::span<const Tensor>, const DistributedElement&)>;
  std::vector<Tensor> reduce(const std::vector<Tensor>& initial, const LoopBody& body,
                             Site site = Site::here());
  Tensor for_each(const std::function<void(const DistributedElement&)>& body,
                  Site site = Site::here());
  // Of one replica's elements: what the description tells, else what the next one shows, which is
  // made for that and delivered later. All workers call it then, as they call next(). Throws
  // FailedPrecondition when there is none.
  data::ElementSpec element_spec() const;
  // The position, for going on after a restart: see data::Iterator::save().
  std::string save();

  // For traced functions: see data::Iterator.
  const Tensor& handle() const { return handle_; }
  DistributedIterator with_handle(Tensor handle) const;
  std::string kind() const;

 private:
  friend class DistributedDataset;
  // next(), but nullopt at the end.
  std::optional<DistributedElement> next_or_end();

  std::shared_ptr<internal::DistributedInputIterator> impl_;
  Tensor handle_;
};

// A dataset spread over the replicas of a strategy, which must outlive it. Cheap to copy; each
// iterator starts anew, with the next pass, whose first step all workers take together: they
// compare their datasets then, and take the chief's seeds and division of the data.
// Element k of a worker's pipeline goes to its replica k mod R of R. With one replica in all, the
// elements come collapsed.
//
// distribute_dataset() takes batches of the global size, cuts them for the replicas and shards them
// between workers by the dataset's auto_shard policy; distribute_datasets_from_function() takes
// batches of the replica size and leaves them as they are.
class DistributedDataset {
 public:
  explicit DistributedDataset(std::shared_ptr<const internal::DistributedInput> impl);

  // In code that function() traces, each call of the traced function begins a new pass.
  DistributedIterator iterator() const;
  // Goes on where DistributedIterator::save() was called on this worker. Throws InvalidArgument
  // when `position` is damaged or comes from another dataset or number of workers and replicas.
  DistributedIterator iterator(const std::string& position) const;
  class StepIterator;
  StepIterator begin() const;
  std::default_sentinel_t end() const { return {}; }

  // Of one replica's elements: what the description tells, else what an element showed that was
  // delivered, else what the first one of the next pass shows, which is made for that and delivered
  // later. Throws FailedPrecondition when there is none, and for several workers before the first
  // step where only an element tells: ask an iterator, on all workers.
  data::ElementSpec element_spec() const;
  // Of the dataset it was made from; of this worker's for a function's datasets.
  int64_t cardinality() const;
  // f(f(initial, element), element)... over all elements, a last uneven step included.
  template <typename T, typename F>
  T reduce(T initial, const F& f) const;

  // For those who write strategies.
  const std::shared_ptr<const internal::DistributedInput>& input() const { return impl_; }

 private:
  std::shared_ptr<const internal::DistributedInput> impl_;
};

// For range-for: an input iterator that ends where the data does.
class DistributedDataset::StepIterator {
 public:
  using value_type = DistributedElement;
  using reference = const DistributedElement&;
  using difference_type = std::ptrdiff_t;
  using iterator_category = std::input_iterator_tag;

  explicit StepIterator(DistributedIterator from) : from_(std::move(from)) { ++*this; }
  const DistributedElement& operator*() const { return *current_; }
  StepIterator& operator++() {
    current_ = from_.next_or_end();
    return *this;
  }
  void operator++(int) { ++*this; }
  friend bool operator==(const StepIterator& it, std::default_sentinel_t) {
    return !it.current_.has_value();
  }

 private:
  DistributedIterator from_;
  std::optional<DistributedElement> current_;
};

inline DistributedDataset::StepIterator DistributedDataset::begin() const {
  return StepIterator(iterator());
}

template <typename T, typename F>
T DistributedDataset::reduce(T initial, const F& f) const {
  DistributedIterator from = iterator();
  while (const std::optional<DistributedElement> element = from.next_optional()) {
    initial = f(std::move(initial), *element);
  }
  return initial;
}

}  // namespace cohort
