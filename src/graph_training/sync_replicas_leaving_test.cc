// Workers and chiefs that are done early, leave, are lost, or come back.

#include <gtest/gtest.h>

#include <thread>

#include "cohort/sync_replicas.h"
#include "support/expect_error.h"
#include "support/sync_cluster.h"

namespace cohort {
namespace {

using test::kTimeLimit;
using test::SyncCluster;

TEST(SyncReplicas, GoOnWithoutAWorkerThatLeaves) {
  SyncCluster cluster(3, 3);
  cluster.start();
  auto a = cluster.train_meanwhile(0, 2);
  auto b = cluster.train_meanwhile(1, 4);
  cluster.await_gradients(2);  // the update waits for the third
  EXPECT_EQ(cluster.step(), 0);
  cluster.chief().mark_left(cluster.session(), 2);
  EXPECT_EQ(a.get(), 1);
  EXPECT_EQ(b.get(), 1);
  EXPECT_EQ(cluster.variable(), 8.5f);
  EXPECT_EQ(cluster.live(), 2);
  for (int64_t step = 2; step <= 4; ++step) {  // no tokens pile up for the one that is gone
    auto again = cluster.train_meanwhile(0, 2);
    EXPECT_EQ(cluster.train(1, 4), step);
    EXPECT_EQ(again.get(), step);
    EXPECT_EQ(cluster.tokens(), 0);
  }
  cluster.stop();
}

TEST(SyncReplicas, GoOnWithTheLastWorker) {
  SyncCluster cluster(3, 3);
  cluster.start();
  cluster.worker(0).mark_left(cluster.session(), 1);
  cluster.worker(0).mark_left(cluster.session(), 2);
  cluster.worker(0).mark_left(cluster.session(), 2);  // twice is once
  EXPECT_EQ(cluster.live(), 1);
  for (int64_t step = 1; step <= 3; ++step) EXPECT_EQ(cluster.train(0, 2), step);
  EXPECT_EQ(cluster.variable(), 7.f);
  cluster.stop();
}

TEST(SyncReplicas, UseBackupWorkersBeforeTheyTakeLess) {
  SyncCluster cluster(2, 3);
  cluster.start();
  cluster.chief().mark_left(cluster.session(), 2);
  auto a = cluster.train_meanwhile(0, 2);
  cluster.await_gradients(1);
  EXPECT_EQ(cluster.step(), 0);  // two are needed still, and two are there
  EXPECT_EQ(cluster.train(1, 4), 1);
  EXPECT_EQ(a.get(), 1);
  EXPECT_EQ(cluster.tokens(), 0);
  cluster.stop();
}

TEST(SyncReplicas, AskLessOfThoseWhoStayWhenMoreBatchesThanWorkersAreTaken) {
  SyncCluster cluster(4, 2);
  cluster.start();
  cluster.chief().mark_left(cluster.session(), 1);
  EXPECT_EQ(cluster.train(0, 1), 0);
  EXPECT_EQ(cluster.train(0, 2), 0);
  EXPECT_EQ(cluster.train(0, 6), 1);  // 4 - 1 batches make an update
  EXPECT_EQ(cluster.variable(), 8.5f);
  for (int64_t step = 1; step <= 2; ++step) {
    EXPECT_EQ(cluster.train(0, 1), step);
    EXPECT_EQ(cluster.train(0, 1), step);
    EXPECT_EQ(cluster.train(0, 1), step + 1);
  }
  cluster.stop();
}

TEST(SyncReplicas, CountAWorkerAgainThatComesBack) {
  SyncCluster cluster(2, 2);
  cluster.start();
  cluster.chief().mark_left(cluster.session(), 1);
  EXPECT_EQ(cluster.train(0, 2), 1);
  cluster.session().run(cluster.worker(1).local_step_init_op());
  cluster.chief().mark_joined(cluster.session(), 1);
  EXPECT_EQ(cluster.live(), 2);
  // The chief notices soon; from then on an update is the mean of both gradients again.
  float change = 0;
  for (int i = 0; i < 100 && change != 1.5f; ++i) {
    const float before = cluster.variable();
    auto a = cluster.train_meanwhile(0, 2);
    cluster.train(1, 4);
    a.get();
    change = before - cluster.variable();
  }
  EXPECT_EQ(change, 1.5f);
  cluster.stop();
}

TEST(SyncReplicas, KnowTheirWorkers) {
  SyncCluster cluster(2, 2);
  EXPECT_ERROR(Code::InvalidArgument, "there is no worker 2 among the 2 workers",
               cluster.chief().mark_left(cluster.session(), 2));
  EXPECT_ERROR(Code::InvalidArgument, "there is no worker -1",
               cluster.chief().mark_joined(cluster.session(), -1));
}

// Two workers that make different numbers of steps, in one session.
void train_unequally(int chief_steps, int worker_steps, bool numbered) {
  Graph graph;
  const auto building = graph.as_default();
  Variable v(100.f, {.name = "v"});
  optim::Sgd sgd({.learning_rate = 0.01});
  const auto options = [&](int index) {
    SyncReplicasOptions made{.replicas_to_aggregate = 2};
    if (numbered) made.worker_index = index;
    return made;
  };
  SyncReplicasOptimizer chief(sgd, options(0)), other(sgd, options(1));
  const Tensor chief_train = chief.minimize(square(v), {v}, global_step());
  const Tensor other_train = other.minimize(square(v), {v}, global_step());
  const auto chief_hook = chief.make_session_run_hook(true);
  const auto other_hook = other.make_session_run_hook(false);
  const Tensor step = global_step().read_value();
  std::thread other_worker;
  MonitoredSession session({.hooks = {chief_hook}});
  Session& shared = session.raw_session();
  other_worker = std::thread([&] {
    Coordinator coordinator;
    other_hook->after_create_session(shared, coordinator);
    for (int i = 0; i < worker_steps; ++i) shared.run(other_train, {}, {.timeout = kTimeLimit});
    other_hook->end(shared);
    coordinator.request_stop();
    coordinator.join();
  });
  session.manage([&] {
    for (int i = 0; i < chief_steps; ++i) session.run(chief_train);
  });
  other_worker.join();
}

TEST(SyncReplicas, OutlastAWorkerThatIsDoneEarly) { train_unequally(20, 3, true); }
TEST(SyncReplicas, AreServedByAChiefThatIsDoneEarly) { train_unequally(3, 20, true); }
TEST(SyncReplicas, NeedNoNumbersToLeave) {
  train_unequally(20, 3, false);
  train_unequally(3, 20, false);
}

TEST(SyncReplicas, LeaveAlsoWhenTheLoopFails) {
  SyncCluster cluster(2, 2);
  cluster.start();
  const auto hook = cluster.worker(1).make_session_run_hook(false);
  {
    Coordinator coordinator;
    hook->after_create_session(cluster.session(), coordinator);
    EXPECT_EQ(cluster.live(), 2);
    coordinator.request_stop({.code = Code::DataLoss, .message = "broken"});
    EXPECT_ERROR(Code::DataLoss, "broken", coordinator.join());
  }
  EXPECT_EQ(cluster.live(), 1);
  EXPECT_EQ(cluster.train(0, 2), 1);
  cluster.stop();
}

TEST(SyncReplicas, WaitForTheModelBeforeTheLocalStep) {
  SyncCluster cluster(1, 1);
  Coordinator coordinator;
  EXPECT_ERROR(Code::FailedPrecondition, "not initialised: v",
               cluster.chief().make_session_run_hook(true)->after_create_session(cluster.session(),
                                                                                 coordinator));
}

// A chief was lost after it took the gradients: all workers wait for tokens that never came.
TEST(SyncReplicas, GoOnAfterTheChiefWasLost) {
  SyncCluster cluster(1, 1);
  cluster.start();
  EXPECT_EQ(cluster.train(0, 2), 1);
  cluster.stop();
  auto waiting = cluster.train_meanwhile(0, 2);
  cluster.await_gradients(1);
  cluster.session().run(
      ConditionalAccumulator({.shape = {}, .shared_name = "sync_replicas/v/gradients"})
          .take_gradient(1));
  Coordinator coordinator;
  const auto hook = cluster.chief().make_session_run_hook(true);
  hook->after_create_session(cluster.session(), coordinator);
  EXPECT_EQ(waiting.get(), 1);
  EXPECT_EQ(cluster.train(0, 2), 2);
  coordinator.request_stop();
  coordinator.join({.stop_grace_period = kTimeLimit});
}

}  // namespace
}  // namespace cohort
