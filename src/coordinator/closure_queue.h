#pragma once

#include <condition_variable>
#include <optional>
#include <stop_token>

#include "base/mutex.h"
#include "coordinator/closures.h"

namespace cohort::internal {

// The functions that wait for a worker or run, and the first error until a caller asks for it.
// Thread-safe.
class ClosureQueue {
 public:
  // Without a `capacity` the queue is unlimited. `cancel_running` makes the running functions end
  // soon, with Cancelled.
  ClosureQueue(std::optional<int64_t> capacity, int workers, std::function<void()> cancel_running,
               Grouping grouping = {});

  // --- For threads that schedule. These three throw the first error, after all functions ended.
  // Waits while the queue is full or a thread joins.
  void add(const ClosurePtr& closure);
  // Waits for all functions, then makes the updates of a group that is not complete.
  void join();
  bool done() {
    Lock lock(mutex_);
    throw_error(lock);
    return idle();
  }

  // --- For the workers' threads. They settle every closure that they take with one of the three
  // functions below.
  // Waits for a closure; null when asked to stop.
  ClosurePtr take(int worker, const std::stop_token& stop);
  // Makes the updates of the closure's group if the closure is its last. If an update fails,
  // returns its error and does not settle the closure.
  [[nodiscard]] Status succeed(const ClosurePtr& closure, Results results);
  void fail(const ClosurePtr& closure, const Status& status);
  // The closure did not run to its end, through no fault of its own: another worker will run it.
  void put_back(const ClosurePtr& closure);

  // Reports an error that does not belong to a function. The first error counts.
  void report(const Status& status) {
    const std::lock_guard lock(mutex_);
    if (!cancelling_ && !error_) error_ = status;
    changed_.notify_all();
  }
  // Whether the running functions are being cancelled.
  bool cancelling() const {
    const std::lock_guard lock(mutex_);
    return cancelling_ || stopped_;
  }
  // All closures with smaller numbers are over.
  int64_t all_done_below() const {
    const std::lock_guard lock(mutex_);
    return numbers_.all_done_below();
  }
  // Adds a worker that takes closures. A group grows by one function.
  void add_worker() {
    const std::lock_guard lock(mutex_);
    lines_.add_worker();
    if (grouping_.size > 0) group_.grow();
    to_do_.notify_all();
  }
  // No worker takes closures until resume() was called as often.
  void pause() {
    const std::lock_guard lock(mutex_);
    ++paused_;
  }
  void resume() {
    const std::lock_guard lock(mutex_);
    --paused_;
    to_do_.notify_all();
  }
  // Cancels the running functions and waits for their end.
  void end_running() {
    Lock lock(mutex_);
    cancel_until_idle(lock);
  }
  // Forgets the gradients of the group that have come so far: they are lost.
  void restart_group() {
    const std::lock_guard lock(mutex_);
    group_.restart();
    end_update();
    to_do_.notify_all();
  }

  // What the end of the queue leaves undone.
  struct Leftover {
    int64_t functions = 0;                       // that did not run to their end
    int64_t gradients = 0;                       // functions whose gradients no update has used
    std::optional<Status> error = std::nullopt;  // the first one, if no call has thrown it
  };
  // Ends the queue: cancels all functions and waits for the running ones. The leftover does not
  // count the functions that an earlier call has cancelled.
  Leftover stop(const Status& why);

 private:
  using Lock = std::unique_lock<Mutex>;
  bool idle() const { return waiting_ == 0 && running_ == 0 && !updating_; }
  void update_rest(Lock& lock);
  // The first number of the group's updates; the same until end_update().
  int64_t begin_update(const Updates& updates);
  void end_update() {
    if (update_number_) numbers_.end(*std::exchange(update_number_, std::nullopt));
  }
  // Without this closure the group makes another update, so that update gets another number.
  void leave_group(Closure& closure) {
    if (closure.in_group) end_update();
    group_.leave(closure);
  }
  // Takes a closure that the worker may run; null when there is none.
  ClosurePtr next_for(int worker) {
    if (cancelling_ || paused_ > 0 || stopped_) return nullptr;
    return lines_.take(worker, group_);
  }
  // If there is an error, ends all functions and throws it.
  void throw_error(Lock& lock);
  void cancel_waiting(const Status& why);
  void cancel_until_idle(Lock& lock);
  void settle(const ClosurePtr& closure);
  // Handles the closures that wait for this result, which has come or will never come.
  void wake(const RemoteResult& result);
  // Fails a closure that will not run.
  void drop(const ClosurePtr& closure, const Status& why);

  const std::optional<int64_t> capacity_;
  const std::function<void()> cancel_running_;
  const Grouping grouping_;
  mutable Mutex mutex_;
  std::condition_variable_any changed_;  // for threads that schedule
  std::condition_variable_any to_do_;    // for the workers
  ClosureLines lines_;                   // guarded by mutex_, as all below
  ClosureWaiters waiters_;
  ClosureGroup group_;
  CallNumbers numbers_;
  bool updating_ = false;  // an update of a group that is not complete is under way
  std::optional<int64_t> update_number_;
  int64_t waiting_ = 0;  // closures in lines_ or waiters_
  int64_t running_ = 0;
  int64_t ended_early_ = 0;  // closures that stop() has cancelled while they ran
  int joining_ = 0;
  int paused_ = 0;
  bool cancelling_ = false;
  std::optional<Status> error_;
  std::shared_ptr<const RemoteResult> failed_;  // of the function whose error is error_, if any
  bool is_told_ = false;  // a call has thrown an error after the last function was added
  std::optional<Status> stopped_;
};

}  // namespace cohort::internal
