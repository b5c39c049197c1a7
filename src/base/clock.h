#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>

namespace cohort::internal {

// Time as the library sees it. What waits or measures takes a Clock, so that a test decides how
// late it is. Thread-safe.
class Clock {
 public:
  using Duration = std::chrono::nanoseconds;
  using Time = std::chrono::time_point<std::chrono::steady_clock, Duration>;

  virtual ~Clock() = default;
  virtual Time now() const = 0;
  // Waits, with `lock` held as for a condition variable, until done() or the deadline; returns
  // done(). Whoever makes done() true notifies `changed`.
  virtual bool wait_until(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                          Time deadline, const std::function<bool()>& done) = 0;

  bool wait_for(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                Duration timeout, const std::function<bool()>& done);
};

// The machine's clock; it never goes back.
Clock& system_clock();

// A clock that stands still until it is told to advance.
class FakeClock : public Clock {
 public:
  Time now() const override;
  bool wait_until(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                  Time deadline, const std::function<bool()>& done) override;

  // Waits whose deadline is then reached end.
  void advance(Duration by);
  // Returns when at least that many threads are waiting on this clock.
  void await_waiters(int count) const;
  // Returns when that many waits have begun, whether or not they have ended.
  void await_waits(int count) const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable waiters_changed_;
  Time now_{};       // guarded by mutex_
  int waiters_ = 0;  // guarded by mutex_
  int waits_ = 0;    // guarded by mutex_; ended ones included
};

}  // namespace cohort::internal
