#include <gtest/gtest.h>

#include "cohort/cohort.h"
#include "cohort/graph_training.h"
#include "support/expect_error.h"

namespace cohort {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kLong{60'000};

// Numbers up to 3 that go from a source queue into the queue that is tested.
class QueueRunners : public ::testing::Test {
 protected:
  QueueRunners() : building_(graph_.as_default()) {
    fill_ = source_.enqueue_many({Tensor({int64_t{1}, int64_t{2}, int64_t{3}})});
    close_source_ = source_.close();
    move_ = queue_.enqueue({source_.dequeue()[0]});
    next_ = queue_.dequeue()[0];
  }

  int64_t next(Session& session) { return session.run(next_).to<int64_t>(); }

  Graph graph_;
  Graph::Scope building_;
  FifoQueue source_{{.capacity = 4, .components = {{kInt64, {}}}, .name = "source"}};
  FifoQueue queue_{{.capacity = 1, .components = {{kInt64, {}}}, .name = "numbers"}};
  Tensor fill_, close_source_, move_, next_;
};

TEST_F(QueueRunners, CloseTheQueueAtTheEndOfTheInput) {
  const QueueRunner runner(queue_, {move_, move_});
  EXPECT_EQ(runner.name(), "numbers");
  Session session;
  session.run(fill_);
  session.run(close_source_);
  Coordinator coordinator;
  const CoordinatedThreads threads = runner.create_threads(session, coordinator);
  EXPECT_EQ(threads.size(), 3u);  // one per op, and one that cancels
  EXPECT_EQ(next(session) + next(session) + next(session), 6);
  EXPECT_ERROR(Code::OutOfRange, "numbers", next(session));
  coordinator.join();
  EXPECT_FALSE(coordinator.should_stop());
}

TEST_F(QueueRunners, StopWaitingWhenTheCoordinatorStops) {
  const QueueRunner runner(queue_, {queue_.enqueue({Tensor(int64_t{7})})});
  Session session;
  Coordinator coordinator;
  runner.create_threads(session, coordinator);
  EXPECT_EQ(next(session), 7);  // and the next one waits for room
  coordinator.request_stop();
  coordinator.join({.stop_grace_period = kLong});
}

TEST_F(QueueRunners, ReportErrorsToTheCoordinator) {
  const Tensor bad = queue_.enqueue({cast(check_numerics(log(Tensor(-1.f)), "bad"), kInt64)});
  const QueueRunner runner(queue_, {bad});
  Session session;
  Coordinator coordinator;
  runner.create_threads(session, coordinator);
  EXPECT_TRUE(coordinator.wait_for_stop(kLong));
  EXPECT_ERROR(Code::InvalidArgument, "bad", coordinator.join());
}

TEST_F(QueueRunners, KeepErrorsWithoutACoordinator) {
  const Tensor bad = queue_.enqueue({cast(check_numerics(log(Tensor(-1.f)), "bad"), kInt64)});
  const QueueRunner runner(queue_, {bad});
  Session session;
  const CoordinatedThreads threads = runner.create_threads(session);
  ASSERT_EQ(threads.size(), 1u);
  EXPECT_TRUE(threads[0]->join_for(kLong));
  ASSERT_EQ(runner.exceptions_raised().size(), 1u);
  EXPECT_EQ(runner.exceptions_raised()[0].code, Code::InvalidArgument);
}

TEST_F(QueueRunners, TakeOtherCodesForTheEndWhenTold) {
  source_.close();
  const Tensor put = source_.enqueue({Tensor(int64_t{1})});  // Cancelled once it is closed
  const QueueRunner runner({put}, {.name = "runner",
                                   .close_op = queue_.close(),
                                   .queue_closed_codes = {Code::OutOfRange, Code::Cancelled}});
  Session session;
  session.run(close_source_);
  Coordinator coordinator;
  runner.create_threads(session, coordinator);
  EXPECT_ERROR(Code::OutOfRange, "", next(session));
  coordinator.join();
  EXPECT_FALSE(coordinator.should_stop());
}

TEST_F(QueueRunners, StartOncePerSession) {
  const QueueRunner runner(queue_, {move_});
  Session first, second;
  Coordinator coordinator;
  EXPECT_EQ(runner.create_threads(first, coordinator).size(), 2u);
  EXPECT_TRUE(runner.create_threads(first, coordinator).empty());
  EXPECT_EQ(runner.create_threads(second, coordinator).size(), 2u);
  first.run(close_source_);
  second.run(close_source_);
  coordinator.join();
  EXPECT_EQ(runner.create_threads(first, coordinator).size(), 2u);  // the others have ended
  coordinator.request_stop();
  coordinator.join();
}

TEST_F(QueueRunners, NeedOps) {
  EXPECT_ERROR(Code::InvalidArgument, "'numbers' has no ops", QueueRunner(queue_, {}));
}

TEST_F(QueueRunners, OfAGraphStartTogether) {
  EXPECT_TRUE(queue_runners().empty());
  add_queue_runner(QueueRunner(queue_, {move_}));
  add_queue_runner(QueueRunner(source_, {source_.enqueue({Tensor(int64_t{5})})}));
  EXPECT_EQ(queue_runners().size(), 2u);
  EXPECT_TRUE(queue_runners(Graph()).empty());
  Session session;
  Coordinator coordinator;
  EXPECT_EQ(start_queue_runners(graph_, session, coordinator).size(), 4u);
  EXPECT_EQ(next(session), 5);
  EXPECT_EQ(next(session), 5);
  coordinator.request_stop();
  coordinator.join({.stop_grace_period = kLong});
}

}  // namespace
}  // namespace cohort
