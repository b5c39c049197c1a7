#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <optional>

#include "base/clock.h"
#include "base/mutex.h"
#include "cohort/coordinator.h"
#include "cohort/error.h"
#include "graph/function_graph.h"
#include "ops/op.h"

namespace cohort::internal {

// Results on a worker that are not needed any more, by the numbers of their calls. Thread-safe.
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

// A result that the worker which made it keeps, too, as long as the worker has its state.
struct KeptOn {
  int worker;
  uint64_t state;  // see WorkerChannel
  int64_t call;
  std::shared_ptr<Unneeded> unneeded;  // notes when the result is not needed any more
};

// The result of a scheduled function, which may not have come yet. Thread-safe.
class RemoteResult {
 public:
  explicit RemoteResult(Specs specs = {}) : specs_(std::move(specs)) {}
  ~RemoteResult() {
    if (kept_) kept_->unneeded->add(kept_->call);
  }

  // The first call of one of these counts.
  void set(std::vector<Tensor> tensors, std::optional<KeptOn> kept = std::nullopt) {
    settle([&] {
      tensors_ = std::move(tensors);
      kept_ = std::move(kept);
    });
  }

  void fail(Status status) {
    settle([&] { error_ = std::move(status); });
  }

  const Specs& specs() const { return specs_; }
  RemoteValueStatus status() const {
    const std::lock_guard lock(mutex_);
    return status_;
  }

  bool is_settled() const { return status() != RemoteValueStatus::NotReady; }
  // The error of a failed function; Ok when it has not failed, or not yet.
  Status error() const {
    const std::lock_guard lock(mutex_);
    return error_;
  }

  // Waits at most that long. Returns whether the function has ended.
  bool is_ready_within(std::chrono::milliseconds time) const {
    std::unique_lock lock(mutex_);
    return settled_.wait_until(lock, deadline_after(time),
                               [&] { return status_ != RemoteValueStatus::NotReady; });
  }

  // Waits for the tensors. Throws the error if the function failed.
  const std::vector<Tensor>& wait() const {
    std::unique_lock lock(mutex_);
    settled_.wait(lock, [&] { return status_ != RemoteValueStatus::NotReady; });
    throw_own_error();
    return tensors_;
  }
  // Throws the error if the function has failed.
  void check() const {
    const std::lock_guard lock(mutex_);
    throw_own_error();
  }
  // Whether one of these two has thrown the error.
  bool has_thrown() const {
    const std::lock_guard lock(mutex_);
    return has_thrown_;
  }

  // Only for a result that is settled.
  const std::optional<KeptOn>& kept() const { return kept_; }

 private:
  void throw_own_error() const {
    has_thrown_ = !error_.ok();
    throw_if_error(error_);
  }
  void settle(const std::function<void()>& write) {
    {
      const std::lock_guard lock(mutex_);
      if (status_ != RemoteValueStatus::NotReady) return;
      write();
      status_ = RemoteValueStatus::Ready;
    }
    settled_.notify_all();
  }

  const Specs specs_;
  mutable Mutex mutex_;
  mutable std::condition_variable_any settled_;
  RemoteValueStatus status_ = RemoteValueStatus::NotReady;  // guarded by mutex_, as all below
  std::vector<Tensor> tensors_;                             // constant once Ready, as the next
  std::optional<KeptOn> kept_;
  Status error_;
  mutable bool has_thrown_ = false;
};

// A tensor among the results of another function, or of one function for each worker.
struct RemoteArgument {
  RemoteArguments::Results results;
  size_t output;

  const std::shared_ptr<const RemoteResult>& of(int worker) const {
    return results.size() == 1 ? results[0] : results[static_cast<size_t>(worker)];
  }
};

class RemoteArguments::Impl {
 public:
  std::vector<Tensor> add(Results results, bool per_worker);
  // The result that the tensor stands for; nullopt for other tensors.
  std::optional<RemoteArgument> find(const Tensor& tensor) const;

  // Throws InvalidArgument unless values of each worker's own exist for each of `workers`, or if
  // other results are used although they are not `allowed`. Throws the error of a failed result.
  void check(int workers, bool allowed) const;

 private:
  struct Entry {
    std::shared_ptr<FunctionGraph> symbols;  // one argument for each tensor
    Results results;
    bool per_worker;
  };
  std::vector<Entry> entries_;
};

}  // namespace cohort::internal
