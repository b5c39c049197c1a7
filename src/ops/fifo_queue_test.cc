#include "ops/fifo_queue.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "support/expect_error.h"

namespace cohort::internal {
namespace {

using Element = QueueState::Element;

std::vector<Element> elements(std::initializer_list<int> values) {
  std::vector<Element> made;
  for (const int value : values) made.push_back({Tensor(value)});
  return made;
}

std::vector<int> values_of(const std::vector<Element>& taken) {
  std::vector<int> values;
  for (const Element& element : taken) values.push_back(element[0].to<int>());
  return values;
}

// A queue of int32 scalars, and calls of it in threads of their own.
class Queue : public ::testing::Test {
 protected:
  static constexpr int64_t kCapacity = 2;

  std::future<Status> enqueue(std::initializer_list<int> values) {
    const size_t before = queue_.pending_enqueues();
    auto done = std::async(std::launch::async, [this, given = elements(values)] {
      return capture_status([&] { queue_.enqueue(given, cancellation_); });
    });
    while (queue_.pending_enqueues() == before && !is_over(done)) std::this_thread::yield();
    return done;
  }

  std::future<std::vector<int>> dequeue(int64_t count) {
    const size_t before = queue_.pending_dequeues();
    auto done = std::async(std::launch::async, [this, count] {
      return values_of(queue_.dequeue(count, cancellation_));
    });
    while (queue_.pending_dequeues() == before && !is_over(done)) std::this_thread::yield();
    return done;
  }

  template <typename T>
  static bool is_over(const std::future<T>& future) {
    return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }

  std::vector<int> take(int64_t count) { return values_of(queue_.dequeue(count, cancellation_)); }

  QueueState queue_{"tokens", kCapacity, {}};
  Cancellation cancellation_;
};

TEST_F(Queue, GivesElementsInTheOrderOfTheirComing) {
  queue_.enqueue(elements({1, 2}), cancellation_);
  EXPECT_EQ(queue_.size(), 2);
  EXPECT_EQ(take(1), (std::vector<int>{1}));
  queue_.enqueue(elements({3}), cancellation_);
  EXPECT_EQ(take(2), (std::vector<int>{2, 3}));
  EXPECT_EQ(queue_.size(), 0);
}

TEST_F(Queue, MakesEnqueuersWaitForRoomInOrder) {
  queue_.enqueue(elements({1, 2}), cancellation_);
  auto third = enqueue({3});
  auto fourth = enqueue({4});
  EXPECT_FALSE(is_over(third));
  EXPECT_EQ(take(1), (std::vector<int>{1}));
  EXPECT_TRUE(third.get().ok());
  EXPECT_FALSE(is_over(fourth));
  EXPECT_EQ(take(3), (std::vector<int>{2, 3, 4}));
  EXPECT_TRUE(fourth.get().ok());
}

TEST_F(Queue, MakesDequeuersWaitInOrder) {
  auto first = dequeue(1);
  auto second = dequeue(1);
  queue_.enqueue(elements({1}), cancellation_);
  EXPECT_EQ(first.get(), (std::vector<int>{1}));
  EXPECT_FALSE(is_over(second));
  queue_.enqueue(elements({2}), cancellation_);
  EXPECT_EQ(second.get(), (std::vector<int>{2}));
}

TEST_F(Queue, GivesAndTakesMoreAtATimeThanItHolds) {
  auto puts = enqueue({1, 2, 3, 4, 5});
  EXPECT_EQ(take(5), (std::vector<int>{1, 2, 3, 4, 5}));
  EXPECT_TRUE(puts.get().ok());
}

TEST_F(Queue, IsDrainedAfterClosing) {
  queue_.enqueue(elements({1}), cancellation_);
  queue_.close(false);
  queue_.close(false);
  EXPECT_ERROR(Code::Cancelled, "'tokens' is closed", queue_.enqueue(elements({2}), cancellation_));
  EXPECT_ERROR(Code::OutOfRange, "'tokens' is closed and has 1 elements, but 2", take(2));
  EXPECT_EQ(take(1), (std::vector<int>{1}));
  EXPECT_ERROR(Code::OutOfRange, "'tokens' is closed and has 0 elements", take(1));
}

TEST_F(Queue, ClosingLetsPendingEnqueuesFinish) {
  queue_.enqueue(elements({1, 2}), cancellation_);
  auto third = enqueue({3});
  queue_.close(false);
  EXPECT_EQ(take(3), (std::vector<int>{1, 2, 3}));
  EXPECT_TRUE(third.get().ok());
  EXPECT_ERROR(Code::OutOfRange, "closed", take(1));
}

TEST_F(Queue, ClosingEndsPendingEnqueuesWhenAskedTo) {
  queue_.enqueue(elements({1, 2}), cancellation_);
  auto third = enqueue({3});
  auto fourth = enqueue({4});
  queue_.close(true);
  EXPECT_EQ(third.get().code, Code::Cancelled);
  EXPECT_EQ(fourth.get().code, Code::Cancelled);
  EXPECT_EQ(take(2), (std::vector<int>{1, 2}));
}

TEST_F(Queue, ClosingEndsPendingDequeuesThatCannotBeServed) {
  auto waiting = dequeue(2);
  queue_.enqueue(elements({1}), cancellation_);
  queue_.close(false);
  EXPECT_ERROR(Code::OutOfRange, "has 1 elements, but 2", waiting.get());
  EXPECT_EQ(take(1), (std::vector<int>{1}));
}

TEST_F(Queue, CancellationEndsEveryWaitAndLosesNothing) {
  auto waiting = dequeue(3);
  auto behind = dequeue(1);
  queue_.enqueue(elements({1, 2}), cancellation_);
  cancellation_.cancel({.code = Code::Aborted, .message = "the run is over"});
  EXPECT_ERROR(Code::Aborted, "the run is over", waiting.get());
  EXPECT_ERROR(Code::Aborted, "the run is over", behind.get());
  Cancellation other;
  EXPECT_EQ(values_of(queue_.dequeue(2, other)), (std::vector<int>{1, 2}));
}

TEST_F(Queue, CancellationOfOneLetsTheNextGoOn) {
  Cancellation other;
  auto first = dequeue(2);
  auto second = std::async(std::launch::async, [&] { return values_of(queue_.dequeue(1, other)); });
  while (queue_.pending_dequeues() < 2) std::this_thread::yield();
  queue_.enqueue(elements({1}), other);
  cancellation_.cancel({.code = Code::Cancelled, .message = "over"});
  EXPECT_EQ(second.get(), (std::vector<int>{1}));
  EXPECT_ERROR(Code::Cancelled, "over", first.get());
}

TEST_F(Queue, TakesPendingEnqueuesInBeforeItGivesUp) {
  Cancellation other;
  queue_.enqueue(elements({1, 2}), other);
  auto third = enqueue({3, 4, 5, 6});
  queue_.close(false);
  auto draining = std::async(std::launch::async, [&] { return queue_.dequeue(9, other).size(); });
  while (queue_.pending_enqueues() > 0) std::this_thread::yield();
  EXPECT_ERROR(Code::OutOfRange, "has 6 elements, but 9", draining.get());
  EXPECT_TRUE(third.get().ok());
}

TEST_F(Queue, ServesManyThreads) {
  constexpr int kThreads = 4;
  constexpr int kEach = 500;
  std::atomic<int64_t> sum{0};
  std::vector<std::jthread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 1; i <= kEach; ++i) queue_.enqueue(elements({i}), cancellation_);
    });
    threads.emplace_back([&] {
      for (int i = 0; i < kEach; ++i) sum += take(1)[0];
    });
  }
  threads.clear();
  EXPECT_EQ(sum.load(), int64_t{kThreads} * kEach * (kEach + 1) / 2);
}

}  // namespace
}  // namespace cohort::internal
