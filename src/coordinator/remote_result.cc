#include "coordinator/remote_result.h"

namespace cohort::internal {

RemoteResult::~RemoteResult() {
  if (kept_) kept_->unneeded->add(kept_->call);
}

void RemoteResult::set(std::vector<Tensor> tensors, std::optional<KeptOn> kept) {
  {
    const std::lock_guard lock(mutex_);
    if (status_ != RemoteValueStatus::NotReady) return;
    tensors_ = std::move(tensors);
    kept_ = std::move(kept);
    status_ = RemoteValueStatus::Ready;
  }
  settled_.notify_all();
}

void RemoteResult::fail(Status status) {
  {
    const std::lock_guard lock(mutex_);
    if (status_ != RemoteValueStatus::NotReady) return;
    error_ = std::move(status);
    status_ = RemoteValueStatus::Ready;
  }
  settled_.notify_all();
}

RemoteValueStatus RemoteResult::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

Status RemoteResult::error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

bool RemoteResult::is_ready_within(std::chrono::milliseconds time) const {
  std::unique_lock lock(mutex_);
  return settled_.wait_for(lock, time, [&] { return status_ != RemoteValueStatus::NotReady; });
}

const std::vector<Tensor>& RemoteResult::wait() const {
  std::unique_lock lock(mutex_);
  settled_.wait(lock, [&] { return status_ != RemoteValueStatus::NotReady; });
  throw_if_error(error_);
  return tensors_;
}

RemoteValueStatus status_of(const RemoteResult& result) { return result.status(); }
const std::vector<Tensor>& tensors_of(const RemoteResult& result) { return result.wait(); }

}  // namespace cohort::internal
