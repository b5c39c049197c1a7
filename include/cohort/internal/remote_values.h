#pragma once

// What the results of scheduled functions and the datasets of workers consist of. Not for inclusion
// by users: include cohort/coordinator.h.

#include <memory>
#include <variant>
#include <vector>

#include "cohort/dataset.h"
#include "cohort/distributed_dataset.h"
#include "cohort/tensor.h"

namespace cohort {

enum class RemoteValueStatus;

namespace internal {

class ClusterCoordinatorState;
class PerWorkerData;  // the datasets of all workers, serialized
// The dataset of one worker, as the user's function returns it.
using PerWorkerSpec = std::variant<data::Dataset, DistributedDataset>;

// The tensors of a result, once they are there. Thread-safe.
class RemoteResult;
RemoteValueStatus status_of(const RemoteResult& result);
// Waits for the function. Rethrows the error if the function failed.
const std::vector<Tensor>& tensors_of(const RemoteResult& result);

// The results of other functions that a call takes as arguments.
class RemoteArguments {
 public:
  RemoteArguments();
  ~RemoteArguments();
  RemoteArguments(const RemoteArguments&) = delete;
  RemoteArguments& operator=(const RemoteArguments&) = delete;

  using Results = std::vector<std::shared_ptr<const RemoteResult>>;
  // Returns the tensors that stand for those of `result` while the call is traced.
  std::vector<Tensor> add(std::shared_ptr<const RemoteResult> result);
  // The same with a result for each worker.
  std::vector<Tensor> add_per_worker(Results results);

  class Impl;
  const Impl& impl() const { return *impl_; }

 private:
  Owned<Impl> impl_;
};

}  // namespace internal
}  // namespace cohort
