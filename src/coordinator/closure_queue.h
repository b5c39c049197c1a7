#pragma once

#include <condition_variable>
#include <optional>
#include <stop_token>

#include "base/mutex.h"
#include "coordinator/call_numbers.h"
#include "coordinator/closure_group.h"
#include "coordinator/closure_lines.h"
#include "coordinator/closure_waiters.h"

namespace cohort::internal {

// The functions that wait for a worker, and those that run; what fails is kept here until somebody
// asks. Thread-safe.
class ClosureQueue {
 public:
  // `capacity` <= 0: any number. `cancel_running` ends what runs, soon, with Cancelled.
  ClosureQueue(int64_t capacity, int workers, std::function<void()> cancel_running,
               Grouping grouping = {});

  // --- For those who schedule. All three throw the first error, after everything has ended.
  // Waits while the queue is full or somebody joins.
  void add(const ClosurePtr& closure);
  // Makes the updates of a group that is not complete.
  void join();
  bool done();

  // --- For the workers' threads. Everything taken is settled by one of the three below.
  // Waits; null when asked to stop.
  ClosurePtr take(int worker, const std::stop_token& stop);
  // Makes the updates of the closure's group when it is the last. Where that fails the status tells
  // so, and the closure is not settled yet.
  [[nodiscard]] Status succeed(const ClosurePtr& closure, Results results);
  void fail(const ClosurePtr& closure, const Status& status);
  // It did not run to its end, for no fault of its own: another worker is to run it.
  void put_back(const ClosurePtr& closure);

  // An error that is no function's. The first counts.
  void report(const Status& status);
  // Whether what runs is being cancelled.
  bool cancelling() const;
  // All closures with smaller numbers are over.
  int64_t all_done_below() const;
  // Another worker takes closures, and a group has another function.
  void add_worker();
  // Nobody takes closures until as many calls of resume().
  void pause();
  void resume();
  // Cancels what runs, and waits for it.
  void end_running();
  // The gradients of the group that have come so far are lost.
  void restart_group();

  // Cancels everything and waits for what runs: the end.
  void stop(const Status& why);

 private:
  using Lock = std::unique_lock<Mutex>;
  bool idle() const { return waiting_ == 0 && running_ == 0 && !updating_; }
  void update_rest(Lock& lock);
  // Of the group's updates, while they are made, also again.
  int64_t begin_update(const Updates& updates);
  void end_update();
  void leave_group(Closure& closure);
  // Takes what the worker may run out of its line; null when there is nothing.
  ClosurePtr next_for(int worker);
  // Ends everything and throws the error, if there is one.
  void throw_error(Lock& lock);
  void cancel_waiting(const Status& why);
  void cancel_until_idle(Lock& lock);
  void settle(const ClosurePtr& closure);
  // Those that wait for a result that is there now, or never will be.
  void wake(const RemoteResult& result);
  // It will not run.
  void drop(const ClosurePtr& closure, const Status& why);

  const int64_t capacity_;
  const std::function<void()> cancel_running_;
  const Grouping grouping_;
  mutable Mutex mutex_;
  std::condition_variable_any changed_;  // for those who schedule
  std::condition_variable_any to_do_;    // for the workers
  ClosureLines lines_;                   // guarded by mutex_, as all below
  ClosureWaiters waiters_;
  ClosureGroup group_;
  CallNumbers numbers_;
  bool updating_ = false;  // with the gradients of a group that is not complete
  std::optional<int64_t> update_number_;
  int64_t waiting_ = 0;  // in lines, or for results
  int64_t running_ = 0;
  int joining_ = 0;
  int paused_ = 0;
  bool cancelling_ = false;
  std::optional<Status> error_;
  std::optional<Status> stopped_;
};

}  // namespace cohort::internal
