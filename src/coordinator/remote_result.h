#pragma once

#include <chrono>
#include <condition_variable>
#include <optional>

#include "base/mutex.h"
#include "cohort/error.h"
#include "cohort/remote_value.h"
#include "ops/op.h"

namespace cohort::internal {

// Results on a worker that nobody needs any more, by the numbers of their calls. Thread-safe.
class Unneeded {
 public:
  void add(int64_t call) {
    const std::lock_guard lock(mutex_);
    calls_.push_back(call);
  }
  std::vector<int64_t> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(calls_, {});
  }

 private:
  Mutex mutex_;
  std::vector<int64_t> calls_;  // guarded by mutex_
};

// Where a result is besides here: on the worker that made it, while that has its state.
struct KeptOn {
  int worker;
  uint64_t state;  // see WorkerChannel
  int64_t call;
  std::shared_ptr<Unneeded> unneeded;  // told when the result is not needed any more
};

class RemoteResult {
 public:
  explicit RemoteResult(Specs specs = {}) : specs_(std::move(specs)) {}
  ~RemoteResult();
  RemoteResult(const RemoteResult&) = delete;
  RemoteResult& operator=(const RemoteResult&) = delete;

  // The first of these counts.
  void set(std::vector<Tensor> tensors, std::optional<KeptOn> kept = std::nullopt);
  void fail(Status status);

  const Specs& specs() const { return specs_; }
  RemoteValueStatus status() const;
  bool is_settled() const { return status() != RemoteValueStatus::NotReady; }
  // What there is instead of tensors; Ok when there is none, or not yet.
  Status error() const;
  // Whether there is one or the other, at the latest after that time.
  bool is_ready_within(std::chrono::milliseconds time) const;
  // Waits. Throws the error that there is instead.
  const std::vector<Tensor>& wait() const;
  // Of one that is ready.
  const std::optional<KeptOn>& kept() const { return kept_; }

 private:
  const Specs specs_;
  mutable Mutex mutex_;
  mutable std::condition_variable_any settled_;
  RemoteValueStatus status_ = RemoteValueStatus::NotReady;  // guarded by mutex_, as all below
  std::vector<Tensor> tensors_;                             // constant once Ready, as the next
  std::optional<KeptOn> kept_;
  Status error_;
};

}  // namespace cohort::internal
