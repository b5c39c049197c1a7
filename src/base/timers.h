#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>

namespace cohort::internal {

// Calls functions at later times. One thread of the process serves all Timers, so the functions
// must be short and must not wait for each other. Thread-safe.
class Timers {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Key = std::pair<Time, uint64_t>;

  Timers() = default;
  // Drops the calls that are not due, and waits for a call that runs on the other thread.
  ~Timers();
  Timers(const Timers&) = delete;
  Timers& operator=(const Timers&) = delete;

  Key at(Time time, std::function<void()> call);
  // Drops the call if it has not begun. Does not wait for a call that runs.
  void forget(const Key& key);

 private:
  std::atomic<bool> used_ = false;  // whether at() was ever called
};

// Time as the library sees it. Code that waits or measures takes a Clock, so that a test decides
// what time it is (tests/support/fake_clock.h). Thread-safe.
class Clock {
 public:
  using Duration = std::chrono::nanoseconds;
  using Time = std::chrono::time_point<std::chrono::steady_clock, Duration>;

  virtual ~Clock() = default;
  virtual Time now() const = 0;
  // Waits, with `lock` held as for a condition variable, until done() or the deadline; returns
  // done(). The thread that makes done() true notifies `changed`.
  virtual bool wait_until(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                          Time deadline, const std::function<bool()>& done) = 0;

  bool wait_for(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                Duration timeout, const std::function<bool()>& done);
};

// The machine's clock; it never goes back.
Clock& system_clock();

}  // namespace cohort::internal
