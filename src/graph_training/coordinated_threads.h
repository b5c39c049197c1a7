#pragma once

#include <condition_variable>
#include <mutex>

#include "base/raise.h"
#include "cohort/threads.h"

namespace cohort::internal {

// The state that a Coordinator shares with its threads, which may outlast the Coordinator.
// Thread-safe.
class CoordinatorState {
 public:
  explicit CoordinatorState(const CoordinatorOptions& options) : options_(options) {}

  // A null error requests the stop without an error.
  void request_stop(const std::exception_ptr& error);
  void request_stop(const Status& error) {
    request_stop(capture_exception([&] { throw_if_error(error); }));
  }
  bool should_stop() const;
  bool wait_for_stop(std::optional<std::chrono::milliseconds> timeout) const;
  void clear_stop();
  // The first error that was reported; null when none was.
  std::exception_ptr error() const;
  // Runs `body` and reports what it throws.
  void stop_on_exception(const std::function<void()>& body);

  void register_thread(std::shared_ptr<CoordinatedThread> thread);
  CoordinatedThreads threads() const;
  // Unregisters the threads. From here on request_stop() throws an error at once.
  void set_joined();
  bool joined() const;

 private:
  bool is_clean(Code code) const;

  const CoordinatorOptions options_;
  mutable std::mutex mutex_;
  mutable std::condition_variable stopped_;
  bool stop_ = false;  // guarded by mutex_, as all below
  bool joined_ = false;
  std::exception_ptr error_;
  CoordinatedThreads threads_;
};

}  // namespace cohort::internal
