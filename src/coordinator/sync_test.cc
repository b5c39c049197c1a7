// Synchronous training: groups of functions, one update for each.

#include <gtest/gtest.h>

#include "coordinator/parameter_server_strategy.h"
#include "runtime/compiled_trace.h"
#include "support/coordinated_cluster.h"
#include "support/eventually.h"

namespace cohort {
namespace {

struct SyncCluster : test::CoordinatedCluster {
  SyncCluster(int num_ps, int num_workers, const ClusterCoordinatorOptions& options = {})
      : CoordinatedCluster(num_ps, num_workers, {.sync = true}), coordinator(strategy, options) {}

  ClusterCoordinator coordinator;
  Variable v = strategy.create([] { return Variable(10.f, {.name = "v"}); });
  optim::Sgd optimizer{{.learning_rate = 0.5}};

  // Moves `v` against the number it is given, and returns what `v` was.
  RemoteValue<Tensor> push(float gradient) { return coordinator.schedule(step_, Tensor(gradient)); }
  float value() const { return v.read_value().to<float>(); }
  int64_t updates() const { return optimizer.iterations().read_value().to<int64_t>(); }
  // The update that the functions of push() belong to.
  std::vector<internal::GroupUpdatePtr> group_updates() {
    const auto scope = strategy.scope();
    const internal::TracingForWorkers tracing;
    return internal::GroupUpdates::of(
        internal::Access::trace(step_, Tensor(0.f)).trace->function());
  }

 private:
  const std::function<Tensor(Tensor)> body_ = [this](Tensor gradient) {
    const Tensor before = v.read_value();
    strategy.run([&](Tensor own) { optimizer.apply_gradients({Gradient(own)}, {v}); }, gradient);
    return before;
  };
  const Function<std::function<Tensor(Tensor)>> step_ = function(body_);
};

TEST(SyncTraining, UpdatesWithTheMeanOfAGroup) {
  SyncCluster here(1, 2);
  const auto first = here.push(2), second = here.push(4);
  EXPECT_EQ(here.coordinator.fetch(first).to<float>(), 10);
  EXPECT_EQ(here.coordinator.fetch(second).to<float>(), 10);
  here.coordinator.join();
  EXPECT_EQ(here.value(), 8.5);
  EXPECT_EQ(here.updates(), 1);
}

TEST(SyncTraining, MakesTheUpdateOfALastSmallerGroupAtJoin) {
  SyncCluster here(1, 2);
  for (const float gradient : {2.f, 4.f}) here.push(gradient);
  const auto last = here.push(6);
  EXPECT_EQ(here.coordinator.fetch(last).to<float>(), 8.5);  // no function waits for a fourth
  EXPECT_EQ(here.updates(), 1);
  here.coordinator.join();
  EXPECT_EQ(here.value(), 5.5);
  EXPECT_EQ(here.updates(), 2);
  here.coordinator.join();
  EXPECT_EQ(here.updates(), 2);
}

TEST(SyncTraining, ShowsTheSameVariablesToAGroup) {
  SyncCluster here(2, 3);
  std::vector<RemoteValue<Tensor>> seen;
  for (int i = 0; i < 30; ++i) seen.push_back(here.push(2));
  here.coordinator.join();
  for (int i = 0; i < 30; ++i) {
    EXPECT_EQ(seen[static_cast<size_t>(i)].fetch().to<float>(), 10 - i / 3) << i;
  }
  EXPECT_EQ(here.value(), 0);
}

TEST(SyncTraining, LeavesOtherFunctionsAlone) {
  SyncCluster here(1, 2);
  here.push(2);
  Variable counter = here.strategy.create([] { return Variable(0.f); });
  for (int i = 0; i < 5; ++i) here.coordinator.schedule([&] { counter.assign_add(1.f); });
  here.push(4);
  here.coordinator.join();
  EXPECT_EQ(counter.read_value().to<float>(), 5);
  EXPECT_EQ(here.value(), 8.5);
}

TEST(SyncTraining, GoesOnAfterAFunctionThatFails) {
  SyncCluster here(1, 2);
  here.coordinator.fetch(here.push(2));
  EXPECT_ERROR(
      Code::InvalidArgument, "Gather",
      here.coordinator.fetch(here.coordinator.schedule(
          [](Tensor x, Tensor i) { return gather(x, i, 0); }, Tensor({1.f}), Tensor({5}))));
  EXPECT_ERROR(Code::InvalidArgument, "Gather", here.coordinator.join());
  here.push(4);
  here.coordinator.join();
  EXPECT_EQ(here.value(), 8.5);  // what was added before is not lost
}

TEST(SyncTraining, CountsEveryGradientOnceWhenWorkersAreLost) {
  SyncCluster here(1, 2);
  for (int i = 0; i < 20; ++i) here.push(0.5);
  here.cluster.stop("worker", 0);
  for (int i = 0; i < 20; ++i) here.push(0.5);
  here.coordinator.join();
  EXPECT_EQ(here.updates(), 20);
  EXPECT_EQ(here.value(), 5);
}

// The answer to the first request may have been lost.
TEST(SyncTraining, MakesAnUpdateOnceThoughAskedTwice) {
  SyncCluster here(2, 2);
  here.coordinator.fetch(here.push(2));  // waits for a second one
  const std::vector<internal::GroupUpdatePtr> updates = here.group_updates();
  ASSERT_EQ(updates.size(), 1u);
  auto& servers =
      static_cast<internal::ParameterServerExtended&>(here.strategy.extended()).servers();
  const Tensor call_id({std::numeric_limits<int64_t>::max(), int64_t{1}, int64_t{1}});
  for (int i = 0; i < 3; ++i) servers.make(*updates[0], call_id);
  EXPECT_EQ(here.value(), 9);
  EXPECT_EQ(here.updates(), 1);
}

TEST(SyncTraining, UsesALearningRateThatWasSetBetweenUpdates) {
  SyncCluster here(1, 2);
  float expected = 10;
  for (const float rate : {0.5f, 0.25f, 1.f}) {
    here.optimizer.set_learning_rate(rate);
    for (int i = 0; i < 2; ++i) {
      for (const float gradient : {2.f, 4.f}) here.push(gradient);
      here.coordinator.join();
      expected -= 3 * rate;
      EXPECT_EQ(here.value(), expected);
    }
  }
}

// The group makes one update with the rate that was set last.
TEST(SyncTraining, MakesOneUpdateOfAGroupInWhichTheLearningRateChanges) {
  SyncCluster here(1, 2);
  here.push(2);
  here.optimizer.set_learning_rate(0.25);
  here.push(4);
  here.coordinator.join();
  EXPECT_EQ(here.value(), 9.25);
  EXPECT_EQ(here.updates(), 1);
}

TEST(SyncTraining, LeavesNoPlansOfLearningRatesOfBefore) {
  SyncCluster here(2, 1);
  const auto plans = [&] {
    uint64_t all = here.cluster.server("worker", 0).status().plans;
    for (int ps = 0; ps < 2; ++ps) all += here.cluster.server("ps", ps).status().plans;
    return all;
  };
  const auto train = [&](int changes) {
    for (int i = 0; i < changes; ++i) {
      here.optimizer.set_learning_rate(i % 2 == 0 ? 0.25 : 0.5);
      here.push(0);
      here.coordinator.join();
    }
  };
  train(3);
  const uint64_t before = plans();
  train(20);
  // The servers forget the plans of a rate before the next update is made, if the worker's thread
  // has let go of the function by then. So those of the last two rates may be there: three plans
  // each.
  EXPECT_TRUE(test::eventually([&] { return plans() <= before + 6; }, std::chrono::seconds(5)))
      << before << " before, now " << plans();
}

TEST(SyncTraining, LetsGoOfVariablesAndOptimizersThatAreDropped) {
  SyncCluster here(1, 1);
  here.push(2);
  here.coordinator.join();
  const ParameterServerPlan before = here.strategy.plan();
  for (int i = 0; i < 5; ++i) {
    const Variable dropped = here.strategy.create([] { return Variable(zeros({100})); });
    optim::Sgd optimizer;
    here.coordinator.schedule(
        [&] { optimizer.minimize([&] { return sum(square(dropped)); }, {dropped}); });
    here.coordinator.join();
  }
  // A worker's thread drops a function a moment after it has set the result.
  EXPECT_TRUE(test::eventually(
      [&] { return here.strategy.plan().variables.size() == before.variables.size(); },
      std::chrono::seconds(5)))
      << here.strategy.plan().to_string();
  EXPECT_EQ(here.strategy.plan().bytes_per_ps, before.bytes_per_ps);
}

// Functions that the program does not keep add to one update if they train the same variables.
TEST(SyncTraining, GroupsLambdasWithEachOther) {
  SyncCluster here(1, 2);
  for (const float gradient : {2.f, 4.f}) {
    here.coordinator.schedule(
        [&] { here.optimizer.apply_gradients({Gradient(Tensor(gradient))}, {here.v}); });
  }
  here.coordinator.join();
  EXPECT_EQ(here.value(), 8.5);
  EXPECT_EQ(here.updates(), 1);
}

TEST(SyncTraining, BeginsTheGroupAgainWhenAParameterServerIsRestored) {
  test::CoordinatedCluster here(1, 2, {.sync = true});
  Variable v = here.strategy.create([] { return Variable(10.f); });
  optim::Sgd optimizer({.learning_rate = 0.5});
  ClusterCoordinator coordinator(here.strategy, {.restore = [&] {
                                   v.assign(100.f);
                                   optimizer.iterations().assign(int64_t{0});
                                 }});
  const auto step =
      function([&](Tensor gradient) { optimizer.apply_gradients({Gradient(gradient)}, {v}); });
  coordinator.fetch(coordinator.schedule(step, Tensor(2.f)));  // waits for a second one
  here.cluster.stop("ps", 0);
  here.cluster.start("ps", 0);
  coordinator.schedule(step, Tensor(4.f));
  coordinator.schedule(step, Tensor(8.f));
  coordinator.join();
  EXPECT_EQ(v.read_value().to<float>(), 97);  // the first is lost with what it was added to
}

TEST(SyncTraining, TrainsTablesInParts) {
  test::CoordinatedCluster here(2, 2,
                                {.variable_partitioner = FixedShardsPartitioner(2), .sync = true});
  ClusterCoordinator coordinator(here.strategy);
  const Variable table = here.strategy.create([] { return Variable(ones({5, 2})); });
  optim::Sgd optimizer({.learning_rate = 1});
  const auto step = function([&](Tensor ids) {
    GradientTape tape;
    const Tensor loss = sum(nn::embedding_lookup(table, ids));
    optimizer.apply_gradients(tape.gradient(loss, std::vector{table}), {table});
  });
  coordinator.schedule(step, Tensor({0, 4}));
  coordinator.schedule(step, Tensor({0, 0, 1}));
  coordinator.join();
  // Each row moves by the mean over the gradients that have it: 1 and 2; 1; 1.
  EXPECT_EQ(table.read_value().to_vector<float>(),
            (std::vector<float>{-0.5f, -0.5f, 0, 0, 1, 1, 1, 1, 0, 0}));
  EXPECT_EQ(optimizer.iterations().read_value().to<int64_t>(), 1);
}

TEST(CoordinatedTraining, HasTheFormulaThatWasChosen) {
  test::CoordinatedCluster here(1, 1);
  ClusterCoordinator coordinator(here.strategy);
  Variable v = here.strategy.create([] { return Variable(1.f); });
  optim::Sgd optimizer({.formula = Formula::TensorFlow,
                        .learning_rate = optim::piecewise_constant({1}, {0.1, 0.01}),
                        .momentum = 0.9});
  const auto step =
      function([&](Tensor gradient) { optimizer.apply_gradients({Gradient(gradient)}, {v}); });
  for (int i = 0; i < 4; ++i) coordinator.schedule(step, Tensor(1.f));
  coordinator.join();
  EXPECT_NEAR(v.read_value().to<float>(), 0.3561, 1e-5);  // torch's: 0.6485
}

TEST(WorkersWithSeveralReplicas, ShareTheirElementsOut) {
  test::CoordinatedCluster here(1, 2, {.devices = {"CPU:0", "CPU:1"}});
  ClusterCoordinator coordinator(here.strategy);
  const auto dataset = coordinator.create_per_worker_dataset([&] {
    return here.strategy.distribute_datasets_from_function([](const InputContext& input) {
      EXPECT_EQ(input.num_replicas_in_sync(), 2);
      return data::range(100 * input.input_pipeline_id(), 100 * input.input_pipeline_id() + 5);
    });
  });
  const auto iterator = dataset.iterator();
  const auto step = function([&](Iterator it) {
    const auto parts = here.strategy.run(
        [](Tensor own) {
          const int replica = get_replica_context()->replica_id_in_sync_group();
          return own * int64_t{replica == 0 ? 1 : 1000};
        },
        it.next());
    return here.strategy.reduce(ReduceOp::Sum, parts);
  });
  const auto run = [&](int worker) {
    return coordinator.fetch(coordinator.schedule_on(worker, step, iterator)).to<int64_t>();
  };
  EXPECT_EQ(run(0), 0 + 1000 * 1);
  EXPECT_EQ(run(1), 100 + 1000 * 101);
  EXPECT_EQ(run(0), 2 + 1000 * 3);
  EXPECT_ERROR(Code::OutOfRange, "no more elements", run(0));  // the fifth has no partner
  EXPECT_ERROR(Code::OutOfRange, "no more elements", coordinator.join());
}

TEST(WorkersWithSeveralReplicas, AllGetWhatNobodyDistributed) {
  test::CoordinatedCluster here(1, 1, {.devices = {"CPU:0", "CPU:1"}});
  ClusterCoordinator coordinator(here.strategy);
  const auto iterator = coordinator.create_per_worker_dataset(data::range(7, 9)).iterator();
  const auto step = function([&](Iterator it) {
    return here.strategy.reduce(ReduceOp::Sum,
                                here.strategy.run([](Tensor own) { return own; }, it.next()));
  });
  EXPECT_EQ(coordinator.fetch(coordinator.schedule(step, iterator)).to<int64_t>(), 14);
}

TEST(WorkersWithSeveralReplicas, TrainInSyncAndWithoutWaitingForOtherWorkers) {
  test::CoordinatedCluster here(2, 2, {.devices = {"CPU:0", "CPU:1"}});
  ClusterCoordinator coordinator(here.strategy);
  Variable v = here.strategy.create([] { return Variable(10.f); });
  optim::Sgd optimizer({.learning_rate = 0.5});
  const auto step = function([&] {
    here.strategy.run([&] {
      const int replica = get_replica_context()->replica_id_in_sync_group();
      optimizer.apply_gradients({Gradient(Tensor(replica == 0 ? 1.f : 3.f))}, {v});
    });
  });
  coordinator.fetch(coordinator.schedule(step));
  EXPECT_EQ(v.read_value().to<float>(), 8);  // the sum over the replicas, at once
  coordinator.fetch(coordinator.schedule(step));
  EXPECT_EQ(v.read_value().to<float>(), 6);
  EXPECT_EQ(optimizer.iterations().read_value().to<int64_t>(), 2);
}

}  // namespace
}  // namespace cohort
