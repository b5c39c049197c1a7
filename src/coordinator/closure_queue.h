#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>

#include "coordinator/remote_result.h"
#include "runtime/traces.h"

namespace cohort::internal {

// A scheduled call of a function.
struct Closure {
  std::shared_ptr<const Trace> trace;
  std::vector<Tensor> arguments;
  std::shared_ptr<RemoteResult> result;
  std::optional<int> worker;  // the only one that may run it
  int64_t number = 0;         // given by the queue, in the order of scheduling
};
using ClosurePtr = std::shared_ptr<Closure>;

// The functions that wait for a worker, and those that run; what fails is kept here until somebody
// asks. Thread-safe.
class ClosureQueue {
 public:
  // `capacity` <= 0: any number. `cancel_running` ends what runs, soon, with Cancelled.
  ClosureQueue(int64_t capacity, int workers, std::function<void()> cancel_running);

  // --- For those who schedule. All three throw the first error, after everything has ended.
  // Waits while the queue is full or somebody joins.
  void add(const ClosurePtr& closure);
  void join();
  bool done();

  // --- For the workers' threads. Everything taken is settled by one of the three below.
  // Waits; null when asked to stop.
  ClosurePtr take(int worker, const std::stop_token& stop);
  void succeed(const ClosurePtr& closure, std::vector<Tensor> results);
  void fail(const ClosurePtr& closure, const Status& status);
  // It did not run to its end, for no fault of its own: another worker is to run it.
  void put_back(const ClosurePtr& closure);

  // An error that is no function's. The first counts.
  void report(const Status& status);
  // Whether what runs is being cancelled.
  bool cancelling() const;
  // All closures with smaller numbers are over.
  int64_t all_done_below() const;
  // Nobody takes closures until as many calls of resume().
  void pause();
  void resume();
  // Cancels what runs, and waits for it.
  void end_running();

  // Cancels everything and waits for what runs: the end.
  void stop(const Status& why);

 private:
  using Lock = std::unique_lock<std::mutex>;
  bool idle() const { return waiting_ == 0 && running_ == 0; }
  std::deque<ClosurePtr>* source_for(int worker);
  void append(const ClosurePtr& closure);
  // Ends everything and throws the error, if there is one.
  void throw_error(Lock& lock);
  void cancel_waiting(const Status& why);
  void cancel_until_idle(Lock& lock);
  void settle(const ClosurePtr& closure);

  const int64_t capacity_;
  const std::function<void()> cancel_running_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;           // for those who schedule
  std::condition_variable to_do_;             // for the workers
  std::deque<ClosurePtr> any_;                // guarded by mutex_, as all below
  std::vector<std::deque<ClosurePtr>> only_;  // by worker
  int64_t waiting_ = 0;
  int64_t running_ = 0;
  std::set<int64_t> open_;  // numbers of those that are not over
  int64_t next_number_ = 1;
  int joining_ = 0;
  int paused_ = 0;
  bool cancelling_ = false;
  std::optional<Status> error_;
  std::optional<Status> stopped_;
};

}  // namespace cohort::internal
