// How the gradients of workers become one update.

#include "cohort/sync_replicas.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/sync_cluster.h"

namespace cohort {
namespace {

using test::kTimeLimit;
using test::SyncCluster;

// R = 2, N = 3, two tokens to begin with, gradients a = 2, b = 4, c = 6: the spec's table.
TEST(SyncReplicas, FollowTheTimelineWithTwoInitialTokens) {
  SyncCluster cluster(2, 3);
  cluster.start(2);
  EXPECT_EQ(cluster.tokens(), 2);
  EXPECT_EQ(cluster.train(0, 2), 0);  // a
  EXPECT_EQ(cluster.gradients(), 1);
  EXPECT_EQ(cluster.variable(), 10.f);
  EXPECT_EQ(cluster.train(1, 4), 0);  // b completes the step
  cluster.await_step(1);
  cluster.await_tokens(3);
  EXPECT_EQ(cluster.variable(), 8.5f);
  EXPECT_EQ(cluster.gradients(), 0);
  EXPECT_EQ(cluster.train(2, 6), 1);  // c comes too late
  EXPECT_EQ(cluster.gradients(), 0);
  EXPECT_EQ(cluster.local_step(2), 1);
  EXPECT_EQ(cluster.train(0, 2), 1);  // a and b waste one batch each
  EXPECT_EQ(cluster.train(1, 4), 1);
  EXPECT_EQ(cluster.gradients(), 0);
  EXPECT_EQ(cluster.tokens(), 0);
  auto a = cluster.train_meanwhile(0, 2);  // from here any two workers complete a step
  EXPECT_EQ(cluster.train(2, 6), 2);
  EXPECT_EQ(a.get(), 2);
  EXPECT_EQ(cluster.variable(), 6.5f);
  cluster.stop();
}

// A token does not belong to a worker: a fast worker may take one that a slow worker has not
// fetched.
TEST(SyncReplicas, TakeTwoGradientsOfAFastWorker) {
  SyncCluster cluster(2, 2);
  cluster.start(2);
  EXPECT_EQ(cluster.train(0, 2), 0);
  EXPECT_EQ(cluster.train(0, 4), 0);
  cluster.await_step(1);
  EXPECT_EQ(cluster.variable(), 8.5f);
  cluster.await_tokens(2);
  EXPECT_EQ(cluster.train(1, 100), 1);  // its gradient is late
  EXPECT_EQ(cluster.variable(), 8.5f);
  cluster.stop();
}

TEST(SyncReplicas, WasteNoBatchAtTheStart) {
  SyncCluster cluster(2, 2);
  cluster.start();
  EXPECT_EQ(cluster.tokens(), 0);
  for (int64_t step = 1; step <= 3; ++step) {
    auto a = cluster.train_meanwhile(0, 2);
    EXPECT_EQ(cluster.train(1, 4), step);
    EXPECT_EQ(a.get(), step);
  }
  EXPECT_EQ(cluster.step(), 3);
  EXPECT_EQ(cluster.variable(), 10.f - 3 * 1.5f);
  EXPECT_EQ(cluster.tokens(), 0);
  cluster.stop();
}

TEST(SyncReplicas, DropTheSlowestWithBackupWorkers) {
  SyncCluster cluster(2, 3);
  cluster.start();
  auto a = cluster.train_meanwhile(0, 2);
  auto b = cluster.train_meanwhile(1, 4);
  EXPECT_EQ(a.get(), 1);
  EXPECT_EQ(b.get(), 1);
  EXPECT_EQ(cluster.train(2, 100), 1);  // dropped, and its token was there
  EXPECT_EQ(cluster.variable(), 8.5f);
  cluster.stop();
}

TEST(SyncReplicas, TakeSeveralBatchesOfAWorkerWhenMoreAreAskedForThanThereAreWorkers) {
  SyncCluster cluster(4, 2);
  EXPECT_ERROR(Code::InvalidArgument,
               "1 initial tokens are too few to finish the first step; it "
               "needs 2",
               cluster.chief().get_init_tokens_op(1));
  cluster.start();
  EXPECT_EQ(cluster.tokens(), 2);
  EXPECT_EQ(cluster.train(0, 1), 0);
  EXPECT_EQ(cluster.train(1, 2), 0);
  auto a = cluster.train_meanwhile(0, 3);
  EXPECT_EQ(cluster.train(1, 6), 1);
  EXPECT_EQ(a.get(), 1);
  EXPECT_EQ(cluster.variable(), 8.5f);  // the mean of 1, 2, 3 and 6 is 3
  EXPECT_EQ(cluster.tokens(), 2);
  cluster.stop();
}

TEST(SyncReplicas, StopAtOnce) {
  SyncCluster cluster(2, 2);
  cluster.start();
  cluster.stop();  // the chief waits for gradients and for changes, without a limit
}

TEST(SyncReplicas, SumRowsOfSparseGradientsEachByItself) {
  Graph graph;
  const auto building = graph.as_default();
  Variable table({{1.f}, {2.f}, {3.f}}, {.name = "table"});
  optim::Sgd sgd({.learning_rate = 1.0});
  std::vector<Tensor> rows, trains, inits;
  std::vector<std::unique_ptr<SyncReplicasOptimizer>> workers;
  for (int i = 0; i < 2; ++i) {
    workers.push_back(std::make_unique<SyncReplicasOptimizer>(
        sgd, SyncReplicasOptions{.replicas_to_aggregate = 2, .worker_index = i}));
    rows.push_back(placeholder(kInt64, {-1}));
    trains.push_back(
        workers.back()->minimize(sum(gather(table, rows.back())), {table}, global_step()));
  }
  const Tensor read = table.read_value();
  const Tensor init = global_variables_initializer();
  Session session;
  session.run(init);
  session.run(workers[0]->chief_init_op());
  session.run(workers[1]->local_step_init_op());
  Coordinator coordinator;
  workers[0]->get_chief_queue_runner().create_threads(session, coordinator);
  auto other = std::async(std::launch::async, [&] {
    session.run(trains[1], {{rows[1], Tensor({int64_t{2}, int64_t{0}})}});
  });
  session.run(trains[0], {{rows[0], Tensor({int64_t{0}})}}, {.timeout = kTimeLimit});
  other.get();
  // Row 0 had two gradients of 1, row 2 one: each row's mean is 1.
  EXPECT_EQ(session.run(read).to_vector<float>(), (std::vector<float>{0, 2, 2}));
  coordinator.request_stop();
  coordinator.join({.stop_grace_period = kTimeLimit});
}

}  // namespace
}  // namespace cohort
