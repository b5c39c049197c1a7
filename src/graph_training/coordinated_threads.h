#pragma once

#include <algorithm>
#include <condition_variable>
#include <iterator>

#include "base/mutex.h"
#include "base/raise.h"
#include "cohort/threads.h"

namespace cohort::internal {

// The state that a Coordinator shares with its threads, which may outlast the Coordinator.
// Thread-safe.
class CoordinatorState {
 public:
  explicit CoordinatorState(const CoordinatorOptions& options) : options_(options) {}

  // A null error requests the stop without an error.
  void request_stop(const std::exception_ptr& error) {
    const bool failed = !is_clean(status_of(error).code);
    const std::lock_guard lock(mutex_);
    if (joined_ && failed) std::rethrow_exception(error);
    if (!stop_ && failed) error_ = error;
    stop_ = true;
    stopped_.notify_all();
  }

  void request_stop(const Status& error) {
    request_stop(capture_exception([&] { throw_if_error(error); }));
  }
  bool should_stop() const {
    const std::lock_guard lock(mutex_);
    return stop_;
  }

  bool wait_for_stop(std::optional<std::chrono::milliseconds> timeout) const {
    std::unique_lock lock(mutex_);
    const auto stopped = [&] { return stop_; };
    if (timeout) return stopped_.wait_for(lock, *timeout, stopped);
    stopped_.wait(lock, stopped);
    return true;
  }

  void clear_stop() {
    const std::lock_guard lock(mutex_);
    stop_ = false;
    joined_ = false;
    error_ = nullptr;
  }

  // The first error that was reported; null when none was.
  std::exception_ptr error() const {
    const std::lock_guard lock(mutex_);
    return error_;
  }

  // Runs `body` and reports what it throws.
  void stop_on_exception(const std::function<void()>& body) {
    const std::exception_ptr thrown = capture_exception(body);
    if (thrown != nullptr) request_stop(thrown);
  }

  void register_thread(std::shared_ptr<CoordinatedThread> thread) {
    if (!thread) raise(Code::InvalidArgument, "[Coordinator] the thread to wait for is null");
    CoordinatedThreads ended;  // destroyed without the mutex, because that joins
    const std::lock_guard lock(mutex_);
    const auto first_ended = std::stable_partition(
        threads_.begin(), threads_.end(), [](const auto& known) { return known->running(); });
    std::move(first_ended, threads_.end(), std::back_inserter(ended));
    threads_.erase(first_ended, threads_.end());
    threads_.push_back(std::move(thread));
  }

  CoordinatedThreads threads() const {
    const std::lock_guard lock(mutex_);
    return threads_;
  }

  // Unregisters the threads. From here on request_stop() throws an error at once.
  void set_joined() {
    CoordinatedThreads gone;  // destroyed without the mutex
    const std::lock_guard lock(mutex_);
    gone.swap(threads_);
    joined_ = true;
  }

  bool joined() const {
    const std::lock_guard lock(mutex_);
    return joined_;
  }

 private:
  bool is_clean(Code code) const {
    const auto& clean = options_.clean_stop_codes;
    return code == Code::Ok || std::ranges::find(clean, code) != clean.end();
  }

  const CoordinatorOptions options_;
  mutable Mutex mutex_;
  mutable std::condition_variable_any stopped_;
  bool stop_ = false;  // guarded by mutex_, as all below
  bool joined_ = false;
  std::exception_ptr error_;
  CoordinatedThreads threads_;
};

}  // namespace cohort::internal
