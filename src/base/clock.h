#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>

namespace cohort::internal {

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

// The end of a wait of that length that begins now; never, if it is longer than clocks count.
template <typename Rep, typename Period>
Clock::Time deadline_after(std::chrono::duration<Rep, Period> time,
                           Clock::Time now = std::chrono::steady_clock::now()) {
  using Wait = std::chrono::duration<Rep, Period>;
  const auto longest = std::chrono::duration_cast<Wait>(Clock::Time::max() - now);
  return time < longest ? now + time : Clock::Time::max();
}

// The machine's clock; it never goes back.
Clock& system_clock();

}  // namespace cohort::internal
