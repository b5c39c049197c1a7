#include "base/clock.h"

#include <gtest/gtest.h>

#include "base/thread.h"
#include "support/fake_clock.h"

namespace cohort::internal {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

// A flag that one thread sets and another waits for.
struct Flag {
  std::mutex mutex;
  std::condition_variable changed;
  bool set = false;

  void raise() {
    const std::lock_guard lock(mutex);
    set = true;
    changed.notify_all();
  }
  bool await(Clock& clock, Clock::Duration timeout) {
    std::unique_lock lock(mutex);
    return clock.wait_for(changed, lock, timeout, [this] { return set; });
  }
};

TEST(DeadlineAfter, AddsTheTimeToThePresent) {
  const Clock::Time now{hours(1)};
  EXPECT_EQ(deadline_after(milliseconds(5), now), Clock::Time(hours(1) + milliseconds(5)));
  EXPECT_EQ(deadline_after(seconds(-1), now), Clock::Time(hours(1) - seconds(1)));
}

TEST(DeadlineAfter, IsNeverForATimeThatClocksDoNotCount) {
  const Clock::Time now{hours(1)};
  EXPECT_EQ(deadline_after(milliseconds::max(), now), Clock::Time::max());
  EXPECT_EQ(deadline_after(hours(24 * 365 * 1000), now), Clock::Time::max());
  EXPECT_EQ(deadline_after(Clock::Duration::max() - hours(1), now), Clock::Time::max());
  EXPECT_LT(deadline_after(Clock::Duration::max() - hours(2), now), Clock::Time::max());
  EXPECT_EQ(deadline_after(Clock::Duration::max()), Clock::Time::max());
}

TEST(SystemClock, NeverGoesBack) {
  const Clock::Time before = system_clock().now();
  EXPECT_LE(before, system_clock().now());
}

TEST(SystemClock, WaitEndsWhenDone) {
  Flag flag;
  Thread setter("setter", [&](const auto&) { flag.raise(); });
  EXPECT_TRUE(flag.await(system_clock(), hours(1)));
  EXPECT_TRUE(flag.await(system_clock(), Clock::Duration::max()));
}

TEST(SystemClock, WaitEndsAtTheDeadline) {
  Flag flag;
  const Clock::Time before = system_clock().now();
  EXPECT_FALSE(flag.await(system_clock(), milliseconds(2)));
  EXPECT_GE(system_clock().now() - before, milliseconds(2));
  EXPECT_FALSE(flag.await(system_clock(), seconds(-1)));
}

TEST(FakeClock, StandsStillUntilToldToAdvance) {
  FakeClock clock;
  const Clock::Time before = clock.now();
  EXPECT_EQ(clock.now(), before);
  clock.advance(hours(5));
  EXPECT_EQ(clock.now() - before, hours(5));
}

TEST(FakeClock, WaitEndsWhenTheDeadlineIsReached) {
  FakeClock clock;
  Flag flag;
  bool result = true;
  Thread waiter("waiter", [&](const auto&) { result = flag.await(clock, hours(1)); });
  clock.await_waiters(1);
  clock.advance(hours(1));
  waiter.join();
  EXPECT_FALSE(result);
}

TEST(FakeClock, WaitEndsWhenDoneWhateverTheTime) {
  FakeClock clock;
  Flag flag;
  bool result = false;
  Thread waiter("waiter", [&](const auto&) { result = flag.await(clock, Clock::Duration::max()); });
  clock.await_waiters(1);
  flag.raise();
  waiter.join();
  EXPECT_TRUE(result);
}

TEST(FakeClock, WaitGoesOnBeforeTheDeadline) {
  FakeClock clock;
  Flag flag;
  bool result = false;
  Thread waiter("waiter", [&](const auto&) { result = flag.await(clock, seconds(10)); });
  clock.await_waiters(1);
  clock.advance(seconds(9));
  clock.await_waiters(1);
  flag.raise();
  waiter.join();
  EXPECT_TRUE(result);
}

}  // namespace
}  // namespace cohort::internal
