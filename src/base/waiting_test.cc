#include "base/waiting.h"

#include <gtest/gtest.h>

#include <thread>

namespace cohort::internal {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

TEST(PauseUnlessStopped, LastsTheTime) {
  const auto began = steady_clock::now();
  pause_unless_stopped(milliseconds(2), std::stop_token());
  EXPECT_GE(steady_clock::now() - began, milliseconds(2));
}

TEST(PauseUnlessStopped, EndsWhenAStopIsRequested) {
  std::jthread thread([](const std::stop_token& stop) {
    pause_unless_stopped(std::chrono::hours(1), stop);
    EXPECT_TRUE(stop.stop_requested());
  });
  thread.request_stop();
}

TEST(YieldBackoff, SleepsAtOnceForAWhileWhereOthersKeepTheCore) {
  const steady_clock::time_point start{std::chrono::hours(1)};
  const auto at = [&](int ms) { return start + milliseconds(ms); };
  YieldBackoff backoff;
  backoff.note_yield(at(0), at(2));    // one long yield may be a pause of the machine
  backoff.note_yield(at(50), at(52));  // and so may another, much later
  EXPECT_FALSE(backoff.sleeps_at_once(at(52)));
  backoff.note_yield(at(60), at(60));  // short
  EXPECT_FALSE(backoff.sleeps_at_once(at(60)));
  backoff.note_yield(at(70), at(72));
  EXPECT_TRUE(backoff.sleeps_at_once(at(72)));
  EXPECT_FALSE(backoff.sleeps_at_once(at(500)));
}

TEST(PollUntil, LooksOnceMoreThanItPauses) {
  int looks = 0;
  EXPECT_TRUE(
      poll_until(steady_clock::now() + std::chrono::hours(1), [&] { return ++looks == 3; }));
  EXPECT_EQ(looks, 3);
}

TEST(PollUntil, EndsAtTheDeadline) {
  EXPECT_FALSE(poll_until(steady_clock::now() + milliseconds(1), [] { return false; }));
  EXPECT_TRUE(poll_until(steady_clock::now() - milliseconds(1), [] { return true; }));
}

TEST(Poll, SaysThatItSleepsAfterTheTimeAwake) {
  const Poll poll({.awake = std::chrono::microseconds(0)});
  bool sleeps = false;
  poll.pause([&] { sleeps = true; });
  EXPECT_TRUE(sleeps);
}

TEST(Backoff, DoublesItsWaitsUpToTheLongest) {
  Backoff backoff(milliseconds(1), milliseconds(3));
  EXPECT_EQ(backoff.next(), milliseconds(1));
  backoff.wait();
  EXPECT_EQ(backoff.next(), milliseconds(2));
  backoff.wait(milliseconds(0));
  EXPECT_EQ(backoff.next(), milliseconds(3));
}

}  // namespace
}  // namespace cohort::internal
