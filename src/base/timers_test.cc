#include "base/timers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <thread>
#include <vector>

namespace cohort::internal {
namespace {

using std::chrono::hours;
using std::chrono::steady_clock;

TEST(Timers, CallInTheOrderOfTheirTimes) {
  const auto now = steady_clock::now();
  std::vector<int> called;
  std::promise<void> over;
  Timers timers;
  timers.at(now, [&, now] {  // the thread is here, so the others are in place before it looks again
    timers.at(now - hours(1), [&] { called.push_back(2); });
    timers.at(now - hours(2), [&] { called.push_back(1); });
    timers.at(now, [&] { over.set_value(); });
  });
  over.get_future().wait();
  EXPECT_EQ(called, (std::vector<int>{1, 2}));
}

TEST(Timers, ShareOneThread) {
  const auto thread_of_call = [] {
    Timers timers;
    std::promise<std::thread::id> thread;
    timers.at(steady_clock::now(), [&] { thread.set_value(std::this_thread::get_id()); });
    return thread.get_future().get();
  };
  EXPECT_EQ(thread_of_call(), thread_of_call());
}

TEST(Timers, NeverCallAfterTheirEnd) {
  bool called = false;
  const auto held = std::make_shared<int>(0);
  {
    Timers timers;
    timers.at(steady_clock::now() + hours(1), [&called, held] { called = true; });
    const auto key = timers.at(steady_clock::now() + hours(1), [&called, held] { called = true; });
    timers.forget(key);
    EXPECT_EQ(held.use_count(), 2) << "a call that is forgotten is destroyed";
  }
  EXPECT_EQ(held.use_count(), 1);
  EXPECT_FALSE(called);
}

TEST(Timers, WaitAtTheirEndForACallThatRuns) {
  std::promise<void> begun, end;
  std::atomic<bool> ended = false;
  std::thread finisher;
  {
    Timers timers;
    timers.at(steady_clock::now(), [&] {
      begun.set_value();
      end.get_future().wait();
      ended = true;
    });
    begun.get_future().wait();
    finisher = std::thread([&] { end.set_value(); });
  }
  EXPECT_TRUE(ended);
  finisher.join();
}

TEST(Timers, DropTheCallThatTheLastOneAdds) {
  std::promise<void> begun, ending;
  std::weak_ptr<int> held;  // by the second call
  auto timers = std::make_unique<Timers>();
  timers->at(steady_clock::now(), [&, self = timers.get()] {
    begun.set_value();
    ending.get_future().wait();
    auto token = std::make_shared<int>(1);
    held = token;
    self->at(steady_clock::now() + hours(1), [token = std::move(token)] {});
  });
  begun.get_future().wait();
  std::thread ender([&] { timers.reset(); });
  ending.set_value();
  ender.join();
  EXPECT_TRUE(held.expired());
}

TEST(Timers, MayEndInTheirOwnCall) {
  auto timers = std::make_shared<Timers>();
  std::promise<void> over;
  Timers* const raw = timers.get();
  raw->at(steady_clock::now(), [&over, timers = std::move(timers)]() mutable {
    timers.reset();
    over.set_value();
  });
  over.get_future().wait();
}

}  // namespace
}  // namespace cohort::internal
