// Workers that each build a graph of their own and share what is on the ps tasks.

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <thread>

#include "cohort/cohort.h"
#include "cohort/graph_training.h"
#include "support/expect_error.h"
#include "support/local_cluster.h"
#include "support/memory_saver.h"

namespace cohort {
namespace {

constexpr double kFactor = 0.5;  // an update multiplies the variable by it

// What one worker's client does: minimises the square of a variable that starts at 1.
struct Client {
  struct Result {
    int64_t step = 0;
    double value = 0;
  };

  Client(test::LocalCluster& its_cluster, int its_index, int sync_replicas = 0)
      : cluster(its_cluster), index(its_index), building(graph.as_default()) {
    const auto on = device(replica_device_setter(
        cluster.spec(), {.worker_device = "/job:worker/task:" + std::to_string(index)}));
    step.emplace(global_step());
    v.emplace(1.0, VariableOptions{.name = "v"});
    sgd.emplace(optim::SgdOptions{.learning_rate = (1 - kFactor) / 2});
    const Tensor loss = square(Tensor(*v));
    if (sync_replicas > 0) {
      sync.emplace(*sgd, SyncReplicasOptions{.replicas_to_aggregate = sync_replicas});
      train = sync->minimize(loss, {*v}, *step);
      hooks.push_back(sync->make_session_run_hook(index == 0));
    } else {
      train = sgd->minimize(loss, {*v}, *step);
    }
    state = {step->read_value(), v->read_value()};
  }

  MonitoredTrainingSessionOptions options() {
    return {.master = cluster.target("worker", index), .is_chief = index == 0, .hooks = hooks};
  }

  // Makes that many steps, or as many as the hooks say.
  Result run(int steps = 1'000'000) {
    MonitoredTrainingSession session(options());
    Result result;
    session.manage([&] {
      for (int i = 0; i < steps && !session.should_stop(); ++i) session.run(train);
      result = now(session.raw_session());
    });
    return result;
  }
  Result now(Session& session) {
    const std::vector<Tensor> values = session.run(state);
    return {values[0].to<int64_t>(), values[1].to<double>()};
  }

  test::LocalCluster& cluster;
  const int index;
  Graph graph;
  Graph::Scope building;
  std::optional<Variable> step, v;
  std::optional<optim::Sgd> sgd;
  std::optional<SyncReplicasOptimizer> sync;
  Hooks hooks;
  Tensor train;
  std::vector<Tensor> state;
};

// Runs clients in threads, one per number of steps.
std::vector<Client::Result> train_all(test::LocalCluster& cluster, std::vector<int> steps,
                                      int sync_replicas) {
  std::vector<Client::Result> results(steps.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < steps.size(); ++i) {
    threads.emplace_back([&, i] {
      const Status status = capture_status([&] {
        Client client(cluster, static_cast<int>(i), sync_replicas);
        results[i] = client.run(steps[i]);
      });
      EXPECT_TRUE(status.ok()) << "worker " << i << ": " << status;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

TEST(BetweenGraph, WorkersShareVariablesAndCountStepsTogether) {
  test::LocalCluster cluster(2, 2);
  const auto results = train_all(cluster, {10, 10}, 0);
  Client look(cluster, 0);
  Session session(cluster.target());
  EXPECT_EQ(look.now(session).step, 20);
  EXPECT_GE(std::max(results[0].step, results[1].step), 10);
}

// The ordinary way to write it: only the model is inside the device scope.
Client::Result train_with_loose_optimizer(test::LocalCluster& cluster, int index) {
  Graph graph;
  const auto building = graph.as_default();
  std::optional<Variable> v;
  {
    const auto on = device(replica_device_setter(
        cluster.spec(), {.worker_device = "/job:worker/task:" + std::to_string(index)}));
    v.emplace(1.0, VariableOptions{.name = "v"});
  }
  const Variable step = global_step();
  optim::Sgd sgd({.learning_rate = optim::exponential_decay({.initial_rate = 0.1})});
  const Tensor train = sgd.minimize(square(Tensor(*v)), {*v}, step);
  EXPECT_EQ(step.device(), v->device());
  EXPECT_EQ(sgd.iterations().device(), v->device());
  MonitoredTrainingSession session({.master = cluster.target("worker", index),
                                    .is_chief = index == 0,
                                    .max_wait = std::chrono::seconds(20)});
  Client::Result result;
  session.manage([&] {
    for (int i = 0; i < 5; ++i) session.run(train);
    result.step = session.raw_session().run(step).to<int64_t>();
  });
  return result;
}

TEST(BetweenGraph, WorkersShareTheCountsOfAnOptimizerMadeOutsideTheDeviceScope) {
  test::LocalCluster cluster(2, 2);
  std::vector<Client::Result> results(2);
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      const Status status =
          capture_status([&] { results[size_t(i)] = train_with_loose_optimizer(cluster, i); });
      EXPECT_TRUE(status.ok()) << "worker " << i << ": " << status;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::max(results[0].step, results[1].step), 10);
}

TEST(BetweenGraph, SynchronousWorkersComputeFromTheSameValues) {
  test::LocalCluster cluster(2, 3);
  train_all(cluster, {8, 8, 8}, 3);
  Client look(cluster, 0);
  Session session(cluster.target());
  const Client::Result end = look.now(session);
  EXPECT_GE(end.step, 8);
  EXPECT_DOUBLE_EQ(end.value, std::pow(kFactor, end.step));
}

TEST(BetweenGraph, SynchronousWorkersGoOnWithoutThoseThatAreDone) {
  test::LocalCluster cluster(1, 3);
  train_all(cluster, {3, 12, 6}, 3);  // the chief is the first
  Client look(cluster, 0);
  Session session(cluster.target());
  const Client::Result end = look.now(session);
  // How many updates the runs make depends on which worker takes a token first.
  EXPECT_DOUBLE_EQ(end.value, std::pow(kFactor, end.step));
}

TEST(BetweenGraph, ASynchronousWorkerThatIsLeftAloneMakesAnUpdateWithEachRun) {
  constexpr int kRuns = 12;
  test::LocalCluster cluster(1, 3);
  std::atomic<int> left = 0;
  std::vector<std::thread> others;
  for (const int index : {1, 2}) {
    others.emplace_back([&, index] {
      const Status status = capture_status([&] { Client(cluster, index, 3).run(3); });
      EXPECT_TRUE(status.ok()) << "worker " << index << ": " << status;
      ++left;
    });
  }
  Client chief(cluster, 0, 3);
  MonitoredTrainingSession session(chief.options());
  while (left < 2) session.run(chief.train);
  for (std::thread& other : others) other.join();
  const Client::Result before = chief.now(session.raw_session());
  for (int i = 0; i < kRuns; ++i) session.run(chief.train);
  const Client::Result after = chief.now(session.raw_session());
  // A run that takes one of at most 3 tokens of before makes no update: its gradient is stale.
  EXPECT_GE(after.step - before.step, kRuns - 3);
  EXPECT_DOUBLE_EQ(after.value, std::pow(kFactor, after.step));
  session.close();
}

TEST(BetweenGraph, SynchronousWorkersGoOnWithoutALostOne) {
  test::LocalCluster cluster(1, 2);
  Client chief(cluster, 0, 2);
  chief.hooks.push_back(std::make_shared<StopAtStepHook>(StopAtStepOptions{.last_step = 5}));
  MonitoredTrainingSession session(chief.options());
  std::thread watchdog([&] {
    Session other(chief.graph, cluster.target());
    chief.sync->mark_left(other, 1);
  });
  session.manage([&] {
    while (!session.should_stop()) session.run(chief.train);
  });
  watchdog.join();
}

// The worker does not say that it is gone: the ps notices.
TEST(BetweenGraph, SynchronousWorkersGoOnWithoutOneThatDies) {
  // The ps notices the end of the connection: no test lasts until it would notice the silence.
  test::LocalCluster cluster(1, 2, {.silence_limit = std::chrono::hours(1)});
  std::atomic<bool> trains = false;
  std::thread dying([&] {
    Client client(cluster, 1, 2);
    MonitoredTrainingSessionOptions options = client.options();
    options.recovery.max_attempts = 0;
    const Status end = capture_status([&] {
      MonitoredTrainingSession session(options);
      for (;; trains = true) session.run(client.train);
    });
    // Aborted when the run comes after its session is gone and before its connection is.
    EXPECT_TRUE(end.code == Code::Unavailable || end.code == Code::Aborted) << end;
  });
  Client chief(cluster, 0, 2);
  MonitoredTrainingSession session(chief.options());
  while (!trains) session.run(chief.train);
  cluster.stop("worker", 1);
  for (int i = 0; i < 5; ++i) session.run(chief.train);
  dying.join();
  session.close();
}

TEST(BetweenGraph, TheChiefRestoresAPsThatWasRestarted) {
  test::LocalCluster cluster(1, 1);
  Client chief(cluster, 0);
  const auto saver = std::make_shared<MemorySaver>();
  MonitoredTrainingSessionOptions options = chief.options();
  options.checkpoint_dir = "directory";
  options.scaffold.saver = saver;
  options.save_checkpoint = {.steps = 1};
  options.recovery = {.max_attempts = 20,
                      .first_wait = std::chrono::milliseconds(5),
                      .longest_wait = std::chrono::milliseconds(500)};
  MonitoredTrainingSession session(options);
  for (int i = 0; i < 3; ++i) session.run(chief.train);
  cluster.stop("ps", 0);
  cluster.start("ps", 0);
  session.run(chief.train);
  const Client::Result end = chief.now(session.raw_session());
  EXPECT_EQ(end.step, 4);
  EXPECT_DOUBLE_EQ(end.value, std::pow(kFactor, 4));
}

}  // namespace
}  // namespace cohort
