// Workers and parameter servers that go away and come back.

#include <gtest/gtest.h>

#include "support/connection_tries.h"
#include "support/coordinated_cluster.h"
#include "support/temporary_file.h"

namespace cohort {
namespace {

TEST(LostWorkers, HaveTheirFunctionsRunElsewhere) {
  test::CoordinatedCluster here(1, 2);
  ClusterCoordinator coordinator(here.strategy);
  Variable v = here.strategy.create([] { return Variable(0.f); });
  const auto add = function([&] { v.assign_add(1.f); });
  for (int i = 0; i < 50; ++i) coordinator.schedule(add);
  here.cluster.stop("worker", 0);
  for (int i = 0; i < 50; ++i) coordinator.schedule(add);
  coordinator.join();
  EXPECT_EQ(v.read_value().to<float>(), 100);  // none lost, none twice
  here.cluster.start("worker", 0);
  coordinator.fetch(coordinator.schedule_on(0, add));
  EXPECT_EQ(v.read_value().to<float>(), 101);
}

TEST(LostWorkers, HaveWhatTheirLoopsChangedCountedOnce) {
  test::CoordinatedCluster here(1, 2);
  ClusterCoordinator coordinator(here.strategy);
  Variable v = here.strategy.create([] { return Variable(0.f); });
  const auto add = function([&] {
    while_loop([](std::span<const Tensor> i) { return i[0] < 20; },
               [&](std::span<const Tensor> i) {
                 cond(
                     v >= 0.f, [&] { return std::vector{v.assign_add(1.f)}; },
                     [&] { return std::vector{v.assign_add(100.f)}; });
                 return std::vector{i[0] + 1};
               },
               {Tensor(0)});
  });
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 30; ++i) coordinator.schedule(add);
    here.cluster.stop("worker", round % 2);
    coordinator.join();
    here.cluster.start("worker", round % 2);
  }
  EXPECT_EQ(v.read_value().to<float>(), 4 * 30 * 20);
}

// The coordinator does not believe what an ending worker reports about other tasks.
TEST(LostWorkers, AreNoFailureOfParameterServers) {
  test::CoordinatedCluster here(1, 2);
  ClusterCoordinator coordinator(here.strategy, {.ps_failures_until_error = 1});
  Variable v = here.strategy.create([] { return Variable(0.f); });
  const auto add = function([&] { v.assign_add(1.f); });
  constexpr int kRounds = 5;
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < 40; ++i) coordinator.schedule(add);
    here.cluster.stop("worker", round % 2);
    for (int i = 0; i < 10; ++i) coordinator.schedule(add);
    coordinator.join();
    here.cluster.start("worker", round % 2);
  }
  EXPECT_EQ(v.read_value().to<float>(), 50 * kRounds);
}

TEST(LostWorkers, GetNewIteratorsWhenTheyAreBack) {
  test::CoordinatedCluster here(1, 1);
  ClusterCoordinator coordinator(here.strategy);
  const auto iterator = coordinator.create_per_worker_dataset(data::range(5)).iterator();
  const auto next = function([](Iterator it) { return it.next().tensor(); });
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(coordinator.fetch(coordinator.schedule(next, iterator)).to<int64_t>(), i);
  }
  here.cluster.stop("worker", 0);
  here.cluster.start("worker", 0);
  EXPECT_EQ(coordinator.fetch(coordinator.schedule(next, iterator)).to<int64_t>(), 0);
}

TEST(LostWorkers, MayStayAwayForSoLong) {
  test::CoordinatedCluster here(1, 1);
  ClusterCoordinator coordinator(here.strategy,
                                 {.worker_recovery_timeout = std::chrono::milliseconds(300)});
  here.cluster.stop("worker", 0);
  coordinator.schedule([] { return Tensor(1.f); });
  EXPECT_ERROR(Code::Unavailable, "/job:worker/replica:0/task:0", coordinator.join());
}

TEST(LostParameterServers, AreAnError) {
  test::CoordinatedCluster here(2, 1);
  ClusterCoordinator coordinator(here.strategy);
  Variable v = here.strategy.create([] { return Variable(0.f); });
  const auto add = function([&] { v.assign_add(1.f); });
  coordinator.fetch(coordinator.schedule(add));
  here.cluster.stop("ps", 0);
  here.cluster.start("ps", 0);
  coordinator.schedule(add);
  EXPECT_ERROR(Code::Unavailable, "/job:ps/replica:0/task:0 is lost with its variables",
               coordinator.join());
}

TEST(LostParameterServers, AreNamedWithTheirFirstVariablesToFunctions) {
  test::CoordinatedCluster here(2, 1);
  std::vector<Variable> variables;
  for (int i = 0; i < 9; ++i) {
    variables.push_back(
        here.strategy.create([&] { return Variable(0.f, {.name = "v" + std::to_string(i)}); }));
  }
  ClusterCoordinator coordinator(here.strategy);
  const auto add = function([&] { variables[0].assign_add(1.f); });
  coordinator.fetch(coordinator.schedule(add));
  here.cluster.stop("ps", 0);
  here.cluster.start("ps", 0);
  coordinator.schedule(add);
  EXPECT_ERROR(Code::Unavailable,
               "task:0 is lost with its variables 'v0', 'v2', 'v4' and 2 more; start this program",
               coordinator.join());
}

TEST(LostParameterServers, AreNamedWithTheVariable) {
  test::CoordinatedCluster here(2, 1);
  const Variable a = here.strategy.create([] { return Variable(0.f, {.name = "a"}); });
  const Variable b = here.strategy.create([] { return Variable(0.f, {.name = "b"}); });
  here.cluster.stop("ps", 1);
  EXPECT_ERROR(Code::Unavailable,
               "'b' is on parameter server /job:ps/replica:0/task:1, which is lost",
               b.read_value());
  EXPECT_EQ(a.read_value().to<float>(), 0);
}

// A job that is started again does not wait for a server that is not there.
TEST(LostParameterServers, AreSoonFoundLostAgain) {
  test::CoordinatedCluster here(2, 1);
  const Variable a = here.strategy.create([] { return Variable(0.f, {.name = "a"}); });
  Variable b = here.strategy.create([] { return Variable(0.f, {.name = "b"}); });
  here.cluster.stop("ps", 1);
  const auto expect_soon_lost = [](const std::function<void()>& use) {
    const Status status = error_of(use);
    EXPECT_EQ(status.code, Code::Unavailable) << status;
    EXPECT_NE(
        status.message.find("'b' is on parameter server /job:ps/replica:0/task:1, which is lost"),
        std::string::npos)
        << status;
    test::expect_tried_at_most_for(std::chrono::seconds(1), status);
  };
  expect_soon_lost([&] { b.read_value(); });
  expect_soon_lost([&] { b.assign(1.f); });
  expect_soon_lost([&] { here.strategy.run([&] { return b + a; }); });
  here.cluster.start("ps", 1);
  b.assign(3.f);
  EXPECT_EQ(b.read_value().to<float>(), 3);
}

// A checkpoint without the lost variables would look like a good one.
TEST(LostParameterServers, CannotBeSaved) {
  const TemporaryDirectory directory;
  test::CoordinatedCluster here(1, 1);
  const Variable v = here.strategy.create([] { return Variable(0.f, {.name = "v"}); });
  Checkpoint checkpoint({{"v", v}});
  const std::string good = checkpoint.save(directory.path() + "/ckpt");
  here.cluster.stop("ps", 0);
  here.cluster.start("ps", 0);
  EXPECT_ERROR(Code::Unavailable, "'v' is lost: /job:ps/replica:0/task:0",
               checkpoint.save(directory.path() + "/ckpt"));
  EXPECT_EQ(latest_checkpoint(directory.path()), good);
}

TEST(LostParameterServers, AreRestoredWhereAsked) {
  test::CoordinatedCluster here(2, 2);
  Variable a = here.strategy.create([] { return Variable(0.f); });
  Variable b = here.strategy.create([] { return Variable(0.f); });
  int restored = 0;
  ClusterCoordinator coordinator(here.strategy, {.restore = [&] {
                                   a.assign(100.f);
                                   b.assign(200.f);
                                   ++restored;
                                 }});
  const auto add = function([&] {
    a.assign_add(1.f);
    b.assign_add(1.f);
  });
  for (int i = 0; i < 10; ++i) coordinator.schedule(add);
  coordinator.join();
  here.cluster.stop("ps", 1);
  here.cluster.start("ps", 1);
  for (int i = 0; i < 10; ++i) coordinator.schedule(add);
  coordinator.join();
  EXPECT_EQ(restored, 1);
  EXPECT_EQ(a.read_value().to<float>(), 110);
  EXPECT_EQ(b.read_value().to<float>(), 210);
}

// The function below calls this once.
std::function<void()> g_interruption;

Tensor interrupt(Tensor value) {
  if (const auto happen = std::exchange(g_interruption, nullptr)) happen();
  return value;
}
COHORT_FUNCTION(lost_task_test_interrupt, interrupt);

// A restore does not undo changes of a worker's own variables.
TEST(LostParameterServers, AreRestoredWithoutARepetitionOnTheWorker) {
  test::CoordinatedCluster here(1, 1);
  Variable v = here.strategy.create([] { return Variable(0.f); });
  ClusterCoordinator coordinator(here.strategy, {.restore = [&] { v.assign(100.f); }});
  const PerWorkerVariable seen(Tensor(0.f), "seen");
  const auto elements = coordinator.create_per_worker_dataset(data::range(100)).iterator();
  const auto step = function([&](Iterator it) {
    Variable own = seen;
    const Tensor element = own.assign_add(1.f) * 0.f + cast(it.next().tensor(), kFloat32);
    return v.assign_add(call_native("lost_task_test_interrupt", {element}, {{kFloat32, {}}})[0]);
  });
  coordinator.fetch(coordinator.schedule(step, elements));
  g_interruption = [&] {
    here.cluster.stop("ps", 0);
    here.cluster.start("ps", 0);
  };
  EXPECT_EQ(coordinator.fetch(coordinator.schedule(step, elements)).to<float>(), 101);
  EXPECT_EQ(coordinator.fetch(coordinator.schedule(step, elements)).to<float>(), 103);
  EXPECT_EQ(coordinator.read_all(seen)[0].to<float>(), 3);
}

TEST(Chiefs, MayBeStartedAgain) {
  test::LocalCluster cluster(1, 1);
  const SimpleClusterResolver resolver(cluster.spec());
  for (int run = 0; run < 2; ++run) {
    ParameterServerStrategy strategy(resolver);
    ClusterCoordinator coordinator(strategy);
    Variable v = strategy.create([&] { return Variable(static_cast<float>(run)); });
    coordinator.schedule([&] { v.assign_add(1.f); });
    coordinator.join();
    EXPECT_EQ(v.read_value().to<float>(), 1 + run);
  }
}

}  // namespace
}  // namespace cohort
