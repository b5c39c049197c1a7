#pragma once

#include <condition_variable>
#include <mutex>

#include "cohort/error.h"
#include "cohort/remote_value.h"

namespace cohort::internal {

class RemoteResult {
 public:
  // The first of these counts.
  void set(std::vector<Tensor> tensors);
  void fail(Status status);

  RemoteValueStatus status() const;
  // Waits. Throws the error that there is instead.
  const std::vector<Tensor>& wait() const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable settled_;
  RemoteValueStatus status_ = RemoteValueStatus::NotReady;  // guarded by mutex_, as all below
  std::vector<Tensor> tensors_;                             // constant once Ready
  Status error_;
};

}  // namespace cohort::internal
