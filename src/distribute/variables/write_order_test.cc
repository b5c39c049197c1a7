#include "distribute/variables/write_order.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "support/expect_error.h"
#include "support/fake_clock.h"

namespace cohort::internal {
namespace {

TEST(WriteOrder, RefusesASecondRunWhereWorkersCouldSeeAnotherOrder) {
  WriteOrder order;
  const int one = 1, other = 2;
  order.begin_alone(&one, 2);
  expect_error([&] { order.begin_alone(&other, 1); }, "two runs of one strategy",
               Code::FailedPrecondition);
  order.end(&one, 1);
  order.end(&one, 1);
  order.begin_alone(&other, 1);
  order.end(&other);
  order.lock();
  order.unlock();
}

TEST(WriteOrder, LogsThatAWriteWaitsForAnotherThread) {
  FakeClock clock;
  WriteOrder order(clock);
  ::testing::internal::CaptureStderr();
  order.lock();
  std::thread other([&] {
    order.lock();
    order.unlock();
  });
  clock.await_waiters(1);
  clock.advance(std::chrono::seconds(5));
  clock.await_waits(2);  // the second wait begins after the log line
  order.unlock();
  other.join();
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("a write has waited 5 s"),
            std::string::npos);
}

TEST(WriteOrder, EndsTheWaitForACallThatMayWaitForTheWrite) {
  FakeClock clock;
  WriteOrder order(clock);
  const std::shared_ptr<void> turn = order.enter(true);
  Status status;
  std::atomic<bool> ended = false;
  std::thread other([&] {
    status = capture_status([&] { order.lock(); });
    ended = true;
  });
  for (; !ended; std::this_thread::yield()) clock.advance(std::chrono::seconds(1));
  other.join();
  EXPECT_EQ(status.code, Code::FailedPrecondition);
  EXPECT_NE(status.message.find("waits for data or runs native code"), std::string::npos);
}

}  // namespace
}  // namespace cohort::internal
