#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <latch>

#include "base/mutex.h"
#include "base/thread.h"
#include "cohort/threads.h"
#include "support/expect_error.h"

namespace cohort {
namespace {

using std::chrono::milliseconds;

Status failure(const std::string& message, Code code = Code::Internal) {
  return {.code = code, .message = message};
}

TEST(Coordinator, StopsThreadsThatLook) {
  Coordinator coordinator;
  std::atomic<int> ended{0};
  for (int i = 0; i < 3; ++i) {
    coordinator.start_thread("looker", [&] {
      coordinator.wait_for_stop();
      ++ended;
    });
  }
  EXPECT_FALSE(coordinator.should_stop());
  EXPECT_FALSE(coordinator.wait_for_stop(milliseconds(1)));
  coordinator.request_stop();
  EXPECT_TRUE(coordinator.should_stop());
  EXPECT_TRUE(coordinator.wait_for_stop(milliseconds(0)));
  coordinator.join();
  EXPECT_EQ(ended, 3);
  EXPECT_TRUE(coordinator.joined());
}

// Added to now, the time would overflow, and the waits would end at once.
TEST(Coordinator, WaitsForTimesThatClocksDoNotReach) {
  Coordinator coordinator;
  const auto thread = coordinator.start_thread(
      "waits", [&] { EXPECT_TRUE(coordinator.wait_for_stop(milliseconds::max())); });
  const internal::Thread stops("stops", [&](const auto&) { coordinator.request_stop(); });
  EXPECT_TRUE(thread->join_for(milliseconds::max()));
  coordinator.join({.stop_grace_period = milliseconds::max()});
}

TEST(Coordinator, JoinsThreadsThatEndByThemselvesWithoutAStop) {
  Coordinator coordinator;
  coordinator.start_thread("short", [] {});
  coordinator.join();
  EXPECT_FALSE(coordinator.should_stop());
}

TEST(Coordinator, ThrowsTheFirstErrorAndDropsLaterOnes) {
  Coordinator coordinator;
  coordinator.request_stop(failure("first"));
  coordinator.request_stop(failure("second"));
  EXPECT_ERROR(Code::Internal, "first", coordinator.raise_requested_exception());
  EXPECT_ERROR(Code::Internal, "first", coordinator.join());
}

TEST(Coordinator, DropsErrorsThatComeAfterAStop) {
  Coordinator coordinator;
  coordinator.request_stop();
  coordinator.request_stop(failure("late"));
  coordinator.raise_requested_exception();
  coordinator.join();
}

TEST(Coordinator, HearsOfWhatAThreadThrows) {
  Coordinator coordinator;
  coordinator.start_thread("bad", [] { throw Error(Code::DataLoss, "broken"); });
  EXPECT_TRUE(coordinator.wait_for_stop(milliseconds(60'000)));
  EXPECT_ERROR(Code::DataLoss, "broken", coordinator.join());
}

TEST(Coordinator, TakesTheEndOfInputForACleanStop) {
  Coordinator coordinator;
  coordinator.start_thread("reader", [] { throw Error(Code::OutOfRange, "no more"); });
  coordinator.join();
  EXPECT_TRUE(coordinator.should_stop());
}

TEST(Coordinator, TakesOtherCodesForCleanStopsWhenTold) {
  Coordinator coordinator({.clean_stop_codes = {Code::Cancelled}});
  coordinator.request_stop(failure("enough", Code::Cancelled));
  coordinator.join();
  coordinator.clear_stop();
  coordinator.request_stop(failure("no more", Code::OutOfRange));
  EXPECT_ERROR(Code::OutOfRange, "no more", coordinator.join());
}

TEST(Coordinator, ThrowsAtOnceWhatIsReportedAfterJoin) {
  Coordinator coordinator;
  coordinator.join();
  EXPECT_ERROR(Code::Internal, "unheard", coordinator.request_stop(failure("unheard")));
  coordinator.request_stop();
  coordinator.request_stop(failure("no more", Code::OutOfRange));  // no error
}

TEST(Coordinator, RefusesThreadsThatAreNone) {
  Coordinator coordinator;
  EXPECT_ERROR(Code::InvalidArgument, "null", coordinator.register_thread(nullptr));
  EXPECT_ERROR(Code::InvalidArgument, "null", coordinator.join({.threads = {nullptr}}));
  coordinator.join();
}

TEST(Coordinator, IsAsNewAfterClearStop) {
  Coordinator coordinator;
  coordinator.request_stop(failure("old"));
  EXPECT_ERROR(Code::Internal, "old", coordinator.join());
  coordinator.clear_stop();
  EXPECT_FALSE(coordinator.should_stop());
  EXPECT_FALSE(coordinator.joined());
  coordinator.raise_requested_exception();
  coordinator.request_stop(failure("new"));
  EXPECT_ERROR(Code::Internal, "new", coordinator.join());
}

TEST(Coordinator, NamesThreadsThatOutlastTheGracePeriod) {
  std::promise<void> release;
  std::shared_future<void> released = release.get_future().share();
  Coordinator coordinator;
  const auto thread = coordinator.start_thread("stubborn", [released] { released.wait(); });
  coordinator.request_stop();
  EXPECT_ERROR(Code::DeadlineExceeded, "20 ms after they were asked to stop: stubborn",
               coordinator.join({.stop_grace_period = milliseconds(20)}));
  EXPECT_TRUE(thread->running());
  release.set_value();
  EXPECT_TRUE(thread->join_for(milliseconds(60'000)));
}

TEST(Coordinator, IgnoresThemWhenTold) {
  std::promise<void> release;
  std::shared_future<void> released = release.get_future().share();
  Coordinator coordinator;
  const auto thread = std::make_shared<CoordinatedThread>("given", [released] { released.wait(); });
  coordinator.request_stop();
  coordinator.join(
      {.threads = {thread}, .stop_grace_period = milliseconds(20), .ignore_live_threads = true});
  release.set_value();
  EXPECT_TRUE(thread->join_for(milliseconds(60'000)));
}

TEST(Coordinator, ForgetsThreadsThatHaveEndedOutsideItsLock) {
  int held = -1;
  std::shared_ptr<CoordinatedThread> ended(new CoordinatedThread("ended", [] {}), [&](auto* last) {
    held = internal::num_mutexes_held;
    delete last;
  });
  ASSERT_TRUE(ended->join_for(milliseconds(60'000)));
  Coordinator coordinator;
  coordinator.register_thread(std::move(ended));
  coordinator.start_thread("next", [] {});
  EXPECT_EQ(held, 0);
}

TEST(Coordinator, WaitsForRegisteredThreads) {
  Coordinator coordinator;
  std::atomic<bool> ended{false};
  coordinator.register_thread(std::make_shared<CoordinatedThread>("own", [&] {
    coordinator.wait_for_stop();
    ended = true;
  }));
  coordinator.request_stop();
  coordinator.join();
  EXPECT_TRUE(ended);
}

TEST(Coordinator, ReportsWhatABodyThrowsAndGoesOn) {
  Coordinator coordinator;
  coordinator.stop_on_exception([] { throw Error(Code::Aborted, "lost"); });
  EXPECT_TRUE(coordinator.should_stop());
  EXPECT_ERROR(Code::Aborted, "lost", coordinator.raise_requested_exception());
}

TEST(Coordinator, LoopsUntilItStops) {
  Coordinator coordinator;
  std::latch three(3);
  std::atomic<int> times{0};
  coordinator.start_loop("loop", milliseconds(1), [&] {
    if (times++ < 3) three.count_down();
  });
  three.wait();
  coordinator.request_stop();
  coordinator.join();
  EXPECT_GE(times, 3);
}

TEST(Coordinator, EndsItsThreadsWhenItEnds) {
  std::atomic<bool> ended{false};
  {
    Coordinator coordinator;
    coordinator.start_thread("waiter", [&] {
      coordinator.wait_for_stop();
      ended = true;
    });
  }
  EXPECT_TRUE(ended);
}

}  // namespace
}  // namespace cohort
