#include "base/clock.h"

#include <algorithm>

namespace cohort::internal {
namespace {

// now + timeout; the end of time when that is beyond it ("no deadline" is Duration::max()).
Clock::Time later(Clock::Time now, Clock::Duration timeout) {
  return timeout > Clock::Time::max() - now ? Clock::Time::max() : now + timeout;
}

class SystemClock : public Clock {
 public:
  Time now() const override { return std::chrono::steady_clock::now(); }

  bool wait_until(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                  Time deadline, const std::function<bool()>& done) override {
    return changed.wait_until(lock, deadline, done);
  }
};

}  // namespace

bool Clock::wait_for(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                     Duration timeout, const std::function<bool()>& done) {
  return wait_until(changed, lock, later(now(), timeout), done);
}

Clock& system_clock() {
  static SystemClock clock;
  return clock;
}

Clock::Time FakeClock::now() const {
  const std::lock_guard lock(mutex_);
  return now_;
}

bool FakeClock::wait_until(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                           Time deadline, const std::function<bool()>& done) {
  const auto count_waiters = [this](int change) {
    const std::lock_guard counting(mutex_);
    waiters_ += change;
    if (change > 0) ++waits_;
    waiters_changed_.notify_all();
  };
  count_waiters(+1);
  // advance() cannot notify `changed` without the caller's mutex, and a notification without it
  // may come just before the wait. Looking up every millisecond needs neither.
  while (!done() && now() < deadline) changed.wait_for(lock, std::chrono::milliseconds(1));
  count_waiters(-1);
  return done();
}

void FakeClock::advance(Duration by) {
  const std::lock_guard lock(mutex_);
  now_ += by;
}

void FakeClock::await_waits(int count) const {
  std::unique_lock lock(mutex_);
  waiters_changed_.wait(lock, [&] { return waits_ >= count; });
}

void FakeClock::await_waiters(int count) const {
  std::unique_lock lock(mutex_);
  waiters_changed_.wait(lock, [&] { return waiters_ >= count; });
}

}  // namespace cohort::internal
