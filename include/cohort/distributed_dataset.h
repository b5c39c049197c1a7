#pragma once

#include <cstdint>
#include <functional>
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
class DistributedInput;
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
  bool place_dataset_on_device = false;
  int per_replica_buffer_size = 1;  // elements prefetched for each replica; 0 = none
};

// What the replicas get in one step: an element for each. A replica without data in the last step
// gets an empty one (zero rows); sample_counts() tells, so that means come out right.
class DistributedElement : public PerReplica<data::Element> {
 public:
  DistributedElement(std::vector<std::optional<data::Element>> elements, bool collapsed,
                     std::vector<int64_t> sample_counts);
  // Rows of each local replica's element, 0 for a replica that has no data any more.
  const std::vector<int64_t>& sample_counts() const { return counts_; }
  bool has_data(size_t replica) const;
  // Rows of all replicas together.
  int64_t global_sample_count() const;

 private:
  std::vector<int64_t> counts_;
};

// Walks over a distributed dataset. A handle: copies share the position.
class DistributedIterator {
 public:
  explicit DistributedIterator(std::shared_ptr<internal::DistributedInputIterator> impl);

  // Throws OutOfRange at the end, InvalidArgument inside of a replica.
  DistributedElement next();
  std::optional<DistributedElement> next_optional();
  data::ElementSpec element_spec() const;
  // The position, for going on after a restart: see data::Iterator::save().
  std::string save();

 private:
  std::shared_ptr<internal::DistributedInputIterator> impl_;
};

// A dataset spread over the replicas of a strategy. Cheap to copy; each iterator starts anew.
//
// distribute_dataset() takes batches of the global size, cuts them for the replicas and shards them
// between workers by the dataset's auto_shard policy; distribute_datasets_from_function() takes
// batches of the replica size and leaves them as they are.
class DistributedDataset {
 public:
  explicit DistributedDataset(std::shared_ptr<const internal::DistributedInput> impl);

  DistributedIterator iterator() const;
  class StepIterator;
  StepIterator begin() const;
  std::default_sentinel_t end() const { return {}; }

  // Of one replica's elements.
  data::ElementSpec element_spec() const;
  // Of the dataset it was made from.
  int64_t cardinality() const;
  // f(f(initial, element), element)... over all elements.
  template <typename T, typename F>
  T reduce(T initial, const F& f) const;

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
    current_ = from_.next_optional();
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
  for (const DistributedElement& element : *this) initial = f(std::move(initial), element);
  return initial;
}

}  // namespace cohort
