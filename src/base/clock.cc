#include "base/clock.h"

namespace cohort::internal {
namespace {

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
  return wait_until(changed, lock, deadline_after(timeout, now()), done);
}

Clock& system_clock() {
  static SystemClock clock;
  return clock;
}

}  // namespace cohort::internal
