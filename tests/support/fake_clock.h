#pragma once

#include "base/clock.h"

namespace cohort::internal {

// A clock that stands still until a test advances it.
class FakeClock : public Clock {
 public:
  Time now() const override {
    const std::lock_guard lock(mutex_);
    return now_;
  }

  bool wait_until(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                  Time deadline, const std::function<bool()>& done) override {
    count_waiters(+1);
    // advance() cannot notify `changed` without the caller's mutex, and a notification without it
    // may come just before the wait. Looking every millisecond needs neither.
    while (!done() && now() < deadline) changed.wait_for(lock, std::chrono::milliseconds(1));
    count_waiters(-1);
    return done();
  }

  // Ends the waits whose deadline is then reached.
  void advance(Duration by) {
    const std::lock_guard lock(mutex_);
    now_ += by;
  }
  // Returns when at least that many threads are waiting on this clock.
  void await_waiters(int count) const {
    std::unique_lock lock(mutex_);
    waiters_changed_.wait(lock, [&] { return waiters_ >= count; });
  }
  // Returns when that many waits have begun, whether or not they have ended.
  void await_waits(int count) const {
    std::unique_lock lock(mutex_);
    waiters_changed_.wait(lock, [&] { return waits_ >= count; });
  }

 private:
  void count_waiters(int change) {
    const std::lock_guard lock(mutex_);
    waiters_ += change;
    if (change > 0) ++waits_;
    waiters_changed_.notify_all();
  }

  mutable std::mutex mutex_;
  mutable std::condition_variable waiters_changed_;
  Time now_{};       // guarded by mutex_
  int waiters_ = 0;  // guarded by mutex_
  int waits_ = 0;    // guarded by mutex_; counts the waits that have ended as well
};

}  // namespace cohort::internal
