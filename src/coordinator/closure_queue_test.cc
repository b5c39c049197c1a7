// The queue of functions by itself: order, bounds, errors, groups.

#include "coordinator/closure_queue.h"

#include <gtest/gtest.h>

#include <thread>

#include "support/eventually.h"
#include "support/expect_error.h"

namespace cohort::internal {
namespace {

ClosurePtr closure(Updates updates = {}) {
  auto made = std::make_shared<Closure>();
  made->result = std::make_shared<RemoteResult>();
  made->updates = std::move(updates);
  return made;
}

Status failure(Code code, const char* message) { return {.code = code, .message = message}; }

// A queue, and a worker that takes from it when the test says so.
struct Queue {
  explicit Queue(std::optional<int64_t> capacity = std::nullopt, int workers = 1,
                 Grouping grouping = {})
      : queue(
            capacity, workers, [] {}, std::move(grouping)) {}
  ~Queue() { queue.stop(failure(Code::Cancelled, "over")); }

  ClosurePtr add(Updates updates = {}) {
    ClosurePtr made = closure(std::move(updates));
    queue.add(made);
    return made;
  }
  ClosurePtr take() { return queue.take(0, never.get_token()); }
  Status run(const ClosurePtr& taken) { return queue.succeed(taken, {}); }

  ClosureQueue queue;
  std::stop_source never;
};

// A thread that runs the closures of a worker.
struct Runner {
  Runner(ClosureQueue& queue, int worker)
      : thread([&queue, worker](const std::stop_token& stop) {
          while (const ClosurePtr taken = queue.take(worker, stop)) {
            EXPECT_TRUE(queue.succeed(taken, {}).ok());
          }
        }) {}
  std::jthread thread;
};

TEST(ClosureQueue, IsBounded) {
  Queue here(2);
  here.add();
  here.add();
  std::atomic<bool> added = false;
  std::thread third([&] {
    here.add();
    added = true;
  });
  EXPECT_FALSE(added);
  const ClosurePtr first = here.take();
  third.join();
  EXPECT_TRUE(added);
  EXPECT_EQ(here.queue.all_done_below(), 1);
  EXPECT_TRUE(here.run(first).ok());
  EXPECT_EQ(here.queue.all_done_below(), 2);
  EXPECT_TRUE(here.run(here.take()).ok());
  EXPECT_TRUE(here.run(here.take()).ok());
}

TEST(ClosureQueue, MayHaveNoBound) {
  Queue here(std::nullopt);
  for (int i = 0; i < 1000; ++i) here.add();
  EXPECT_FALSE(here.queue.done());
}

TEST(ClosureQueue, GivesTheFirstFirst) {
  Queue here;
  for (int i = 0; i < 3; ++i) here.add();
  for (int i = 1; i <= 3; ++i) EXPECT_TRUE(here.run(here.take()).ok());
  here.queue.join();
  EXPECT_TRUE(here.queue.done());
  EXPECT_EQ(here.queue.all_done_below(), 4);
}

TEST(ClosureQueue, PutsBackAtTheEnd) {
  Queue here;
  here.add();
  here.add();
  here.queue.put_back(here.take());
  const ClosurePtr second = here.take(), first = here.take();
  EXPECT_EQ(second->number, 2);
  EXPECT_EQ(first->number, 1);
  EXPECT_TRUE(here.run(first).ok());
  EXPECT_TRUE(here.run(second).ok());
}

TEST(ClosureQueue, TakesNothingNewWhileSomebodyJoins) {
  Queue here(100);
  const Runner worker(here.queue, 0);
  std::jthread scheduler([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      for (int i = 0; i < 10; ++i) here.add();  // there is always something to do
    }
  });
  for (int i = 0; i < 5; ++i) here.queue.join();  // for ever, if more may come meanwhile
}

TEST(ClosureQueue, TellsTheFirstErrorAlone) {
  Queue here;
  const ClosurePtr a = here.add(), b = here.add(), c = here.add();
  const ClosurePtr first = here.take(), second = here.take();
  here.queue.fail(first, failure(Code::OutOfRange, "the first"));
  here.queue.fail(second, failure(Code::Internal, "the second"));
  EXPECT_ERROR(Code::OutOfRange, "the first", here.queue.join());
  EXPECT_TRUE(here.queue.done());
  here.queue.join();
  EXPECT_EQ(a->result->error().message, "the first");
  EXPECT_EQ(b->result->error().message, "the second");
  EXPECT_EQ(c->result->error().code, Code::Cancelled);
  here.add();
  EXPECT_TRUE(here.run(here.take()).ok());
  here.queue.join();
}

TEST(ClosureQueue, CancelsTheOneThatWasJustAdded) {
  Queue here;
  here.add();
  here.queue.fail(here.take(), failure(Code::OutOfRange, "the first"));
  const ClosurePtr late = closure();
  EXPECT_ERROR(Code::OutOfRange, "the first", here.queue.add(late));
  EXPECT_EQ(late->result->error().code, Code::Cancelled);
  EXPECT_TRUE(here.queue.done());
}

TEST(ClosureQueue, CancelsWhatComesBackWhileAnErrorIsPending) {
  Queue here;
  const ClosurePtr a = here.add(), b = here.add();
  const ClosurePtr first = here.take(), second = here.take();
  here.queue.fail(first, failure(Code::OutOfRange, "the first"));
  here.queue.put_back(second);
  EXPECT_EQ(b->result->error().code, Code::Cancelled);
  EXPECT_ERROR(Code::OutOfRange, "the first", here.queue.done());
  EXPECT_TRUE(here.queue.done());
}

TEST(ClosureQueue, CountsWhatItsEndLeavesUndone) {
  Queue here(std::nullopt, 2);
  for (int i = 0; i < 4; ++i) here.add();
  EXPECT_TRUE(here.run(here.take()).ok());
  const ClosurePtr running = here.take();
  std::jthread worker([&] {
    while (!here.queue.cancelling()) std::this_thread::yield();
    here.queue.fail(running, failure(Code::Cancelled, "cancelled"));
  });
  const ClosureQueue::Leftover left = here.queue.stop(failure(Code::Cancelled, "over"));
  EXPECT_EQ(left.functions, 3);  // two waited, one ran
  EXPECT_FALSE(left.error);
  EXPECT_EQ(here.queue.stop(failure(Code::Cancelled, "over")).functions, 0);
}

TEST(ClosureQueue, KnowsAtItsEndAnErrorThatNoCallHasThrown) {
  const auto leftover_of = [](const std::function<void(ClosureQueue&, RemoteResult&)>& see) {
    Queue here;
    const ClosurePtr failed = here.add();
    here.queue.fail(here.take(), failure(Code::OutOfRange, "the first"));
    see(here.queue, *failed->result);
    return here.queue.stop(failure(Code::Cancelled, "over"));
  };
  EXPECT_EQ(leftover_of([](auto&, auto&) {}).error.value_or(Status()).message, "the first");
  EXPECT_FALSE(leftover_of([](auto& queue, auto&) {
                 EXPECT_ERROR(Code::OutOfRange, "the first", queue.join());
               }).error);
  EXPECT_FALSE(leftover_of([](auto&, auto& result) {
                 EXPECT_ERROR(Code::OutOfRange, "the first", result.wait());
               }).error);
}

TEST(ClosureQueue, DropsWhatHasOneBadArgumentOfTwo) {
  Queue here;
  const ClosurePtr bad = here.add(), good = here.add();
  const ClosurePtr after = closure();
  after->remote = {RemoteArgument{.results = {bad->result}, .output = 0},
                   RemoteArgument{.results = {good->result}, .output = 0}};
  here.queue.add(after);
  here.queue.fail(here.take(), failure(Code::OutOfRange, "the first"));
  EXPECT_EQ(after->result->error().message, "the first");
  EXPECT_TRUE(here.run(here.take()).ok());
  EXPECT_ERROR(Code::OutOfRange, "the first", here.queue.join());
  here.add();
  const ClosurePtr next = here.take();
  EXPECT_EQ(next->number, 4);  // it is not in the line
  EXPECT_TRUE(here.run(next).ok());
}

TEST(ClosureQueue, WakesAWorkerThatMayRunIt) {
  Queue here({}, 3);
  const Runner late(here.queue, 2);  // has none of what the first two have of their own
  const Runner early(here.queue, 0);
  const auto own = std::make_shared<RemoteResult>();
  own->set({Tensor(1.f)});
  for (int i = 0; i < 50; ++i) {
    const ClosurePtr made = closure();
    made->remote = {RemoteArgument{.results = {own, own}, .output = 0}};
    here.queue.add(made);
    ASSERT_TRUE(test::eventually([&] { return made->result->status() == RemoteValueStatus::Ready; },
                                 std::chrono::seconds(10)));
  }
}

TEST(ClosureGroups, LeaveGradientsWithoutAJoin) {
  const auto update = std::make_shared<const GroupUpdate>(GroupUpdate{.name = "one", .home = {}});
  const auto nothing = [](const Updates&, int64_t) {};
  for (const bool joins : {false, true}) {
    Queue here({}, 1, {.size = 2, .update = nothing, .update_rest = nothing});
    for (int i = 0; i < 3; ++i) here.add({update});
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(here.run(here.take()).ok());
    if (joins) here.queue.join();
    const ClosureQueue::Leftover left = here.queue.stop(failure(Code::Cancelled, "over"));
    EXPECT_EQ(left.gradients, joins ? 0 : 1);
    EXPECT_EQ(left.functions, 0);
  }
}

TEST(ClosureGroups, MakeTheirUpdateAgainUnderTheSameNumber) {
  const auto one = std::make_shared<const GroupUpdate>(GroupUpdate{.name = "one", .home = {}});
  const auto two = std::make_shared<const GroupUpdate>(GroupUpdate{.name = "two", .home = {}});
  std::vector<int64_t> numbers;
  Queue here({}, 1,
             {.size = 2,
              .update =
                  [&](const Updates& updates, int64_t number) {
                    EXPECT_EQ(updates.size(), 2u);
                    numbers.push_back(number);
                    if (numbers.size() == 1) throw Error(Code::Unavailable, "the network failed");
                  },
              .update_rest = {}});
  for (int group = 0; group < 2; ++group) {
    here.add({one});
    here.add({two});
  }
  EXPECT_TRUE(here.run(here.take()).ok());
  const ClosurePtr last = here.take();
  EXPECT_EQ(here.run(last).code, Code::Unavailable);
  EXPECT_EQ(here.queue.all_done_below(), 2);
  here.queue.put_back(last);
  EXPECT_TRUE(here.run(here.take()).ok());
  EXPECT_EQ(here.queue.all_done_below(), 3);  // the update is not open any more
  EXPECT_TRUE(here.run(here.take()).ok());
  EXPECT_TRUE(here.run(here.take()).ok());
  EXPECT_EQ(numbers, (std::vector<int64_t>{5, 5, 7}));  // each of the two has a number
  here.queue.join();
}

}  // namespace
}  // namespace cohort::internal
