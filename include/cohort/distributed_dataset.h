#pragma once

#include "cohort/dataset.h"
#include "cohort/values.h"

// Datasets that give every replica its part.

namespace cohort {

class Strategy;
// InputContext tells a function that makes one input pipeline which of how many pipelines it makes.
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

// InputReplicationMode says how many input pipelines a process has.
enum class InputReplicationMode {
  PerWorker,   // one pipeline, shared by the replicas
  PerReplica,  // one for each; only MirroredStrategy::distribute_datasets_from_function
};

// InputOptions configures how a dataset is distributed.
struct InputOptions {
  bool fetch_to_device = true;  // make elements on the replica's device, not on the host
  InputReplicationMode replication_mode = InputReplicationMode::PerWorker;
  bool place_dataset_on_device = false;  // also the pipeline; PerReplica, not fetch_to_device
  int per_replica_buffer_size = 1;       // elements prefetched for each replica; 0 = none
};

// InputTotals holds what workers exchange about one step of a dataset: numbers that add up.
struct InputTotals {
  int64_t replicas_with_data = 0;
  int64_t samples = 0;
  int64_t failed_workers = 0;  // workers whose input pipeline threw
  // Workers that have no data for a replica and do not know what an empty element looks like.
  int64_t undescribed_workers = 0;
};

// DistributedElement holds what the replicas get in one step: one element for each. In the last
// step a replica without data gets an empty one (zero rows); use the counts of samples for means.
//
//   for (const DistributedElement& batch : strategy.distribute_dataset(dataset)) {
//     const auto sums = strategy.run([](Tensor rows) { return sum(rows); }, batch);
//     const Tensor total = strategy.reduce(ReduceOp::Sum, sums);
//     const Tensor mean = total / static_cast<float>(batch.global_sample_count());
//   }
class DistributedElement : public PerReplica<data::Element> {
 public:
  // Empty `sample_counts`: the counts are not known, because the sizes are not. Undefined
  // `global_batch_size`: this process does not know it.
  DistributedElement(std::vector<std::optional<data::Element>> elements, bool collapsed,
                     std::vector<int64_t> sample_counts, Tensor global_batch_size);
  // Rows of each local replica's element, 0 for a replica that has no data left. An element that is
  // not a batch is one sample. Throws FailedPrecondition in traced code that does not know the
  // sizes; there the shape of the element has them.
  const std::vector<int64_t>& sample_counts() const;
  // Whether the local replica has a sample. Throws InvalidArgument if `replica` is out of range.
  bool has_data(size_t replica) const;
  // Samples of all replicas of all workers; all workers know the number, or none does. Throws
  // FailedPrecondition if samples are not counted: for endless data of several workers whose
  // batches do not have one static size, because these workers do not wait for each other. Throws
  // it also in traced functions, which use global_batch_size().
  int64_t global_sample_count() const;
  bool knows_global_samples() const { return global_.defined() && !global_.is_symbolic(); }
  // The same as an int64 scalar. Traced functions have it, too: each of their steps divides by the
  // samples of that step. Throws FailedPrecondition if samples are not counted.
  Tensor global_batch_size() const;

 private:
  friend struct internal::LeafTensors<DistributedElement>;
  std::vector<int64_t> counts_;
  Tensor global_;  // undefined: not counted
};

// DistributedIterator iterates over a distributed dataset. Copies share the position. Thread-safe.
//
// If the data may end in the middle of a step (sizes that are not static, or several workers), the
// replicas without data get empty elements in that last step. In all other cases next() ends there
// and drops the elements of that step, while next_optional() returns them.
class DistributedIterator {
 public:
  // Returns the elements of the next step. Throws OutOfRange at the end, InvalidArgument inside a
  // replica, and FailedPrecondition inside another strategy or while a graph is being built. An
  // error of the pipeline names the stage and the element; the next call goes on after it.
  //
  // In code that function() traces, the elements' tensors are symbols, and each call of the traced
  // function takes the next step.
  DistributedElement next(Site site = Site::here());
  // Returns nullopt at the end. Throws FailedPrecondition in traced code, because C++ cannot branch
  // there on what a later run finds; use next_as_optional() or reduce().
  std::optional<DistributedElement> next_optional();
  // next() for code that may be traced and branches on the end: see data::OptionalElement.
  data::OptionalElement<DistributedElement> next_as_optional(Site site = Site::here());

  // See data::Iterator. A traced epoch:
  //
  //   const auto epoch = function([&](DistributedIterator it) {
  //     return it.reduce({Tensor(0.f)}, [&](auto state, const DistributedElement& batch) {
  //       const auto losses = strategy.run([&](Tensor rows) { return mean(rows * w); }, batch);
  //       return std::vector{state[0] + strategy.reduce(ReduceOp::Sum, losses)};
  //     })[0];
  //   });
  //   const Tensor loss_sum = epoch(strategy.distribute_dataset(dataset).iterator());
  using LoopBody =
      std::function<std::vector<Tensor>(std::span<const Tensor>, const DistributedElement&)>;
  std::vector<Tensor> reduce(const std::vector<Tensor>& initial, const LoopBody& body,
                             Site site = Site::here());
  Tensor for_each(const std::function<void(const DistributedElement&)>& body,
                  Site site = Site::here());
  // Describes one replica's elements: by the dataset's description, else by the next element, which
  // is then made early and delivered later. In that case all workers must make this call, as they
  // call next(). Throws FailedPrecondition if no element is left.
  data::ElementSpec element_spec() const;
  // Returns the position, for continuing after a restart: see data::Iterator::save().
  std::string save();

 private:
  friend class DistributedDataset;
  friend struct internal::Access;
  explicit DistributedIterator(std::shared_ptr<internal::DistributedInputIterator> impl);
  std::string kind() const;
  // next(), but nullopt at the end.
  std::optional<DistributedElement> next_or_end();

  std::shared_ptr<internal::DistributedInputIterator> impl_;
  Tensor handle_;
};

// DistributedDataset spreads a dataset over the replicas of a strategy, which must outlive it.
//
// Strategy::distribute_dataset() takes batches of the global size, cuts them for the replicas and
// shards them between workers by the dataset's auto_shard policy.
// distribute_datasets_from_function() takes batches of the replica size and leaves them as they
// are. With R replicas per worker, element k of a worker's pipeline goes to replica k mod R. With
// one replica in all, elements are collapsed. Copies are cheap.
//
// Each iterator begins the next pass over the data. All workers take the first step of a pass
// together: they compare their datasets, and use the chief's seeds and division of the data.
class DistributedDataset {
 public:
  // In code that function() traces, each call of the traced function begins a new pass.
  DistributedIterator iterator() const;
  // Continues where DistributedIterator::save() was called on this worker. Throws InvalidArgument
  // if `position` is damaged, or comes from another dataset or number of workers and replicas.
  DistributedIterator iterator(const std::string& position) const;
  class StepIterator;
  StepIterator begin() const;
  std::default_sentinel_t end() const { return {}; }

  // Describes one replica's elements: by the dataset's description, else by an element already
  // delivered, else by the first element of the next pass, which is then made early and delivered
  // later. Throws FailedPrecondition if the dataset is empty. With several workers, throws it also
  // before the first step if only an element can describe the elements: then call an iterator's
  // element_spec() on all workers.
  data::ElementSpec element_spec() const;
  // The cardinality of the original dataset; for a function's datasets, of this worker's.
  data::Cardinality cardinality() const;
  // f(f(initial, element), element)... over all elements, including those of a last uneven step.
  template <typename T, typename F>
  T reduce(T initial, const F& f) const;

 private:
  friend struct internal::Access;
  explicit DistributedDataset(std::shared_ptr<const internal::DistributedInput> impl);

  std::shared_ptr<const internal::DistributedInput> impl_;
};

}  // namespace cohort

#include "cohort/internal/distributed_dataset_inl.h"  // IWYU pragma: export
