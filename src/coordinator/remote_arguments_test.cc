// Results as arguments of later functions, and values of each worker's own.

#include <gtest/gtest.h>

#include "cohort/coordinator.h"
#include "coordinator/cluster_coordinator.h"
#include "support/coordinated_cluster.h"
#include "support/scoped_environment.h"

namespace cohort {
namespace {

struct Passing : test::CoordinatedCluster {
  Passing() : CoordinatedCluster(1, 2) {}
  ClusterCoordinator coordinator{strategy, {.remote_arguments = true}};
};

const auto kAddOne = [](Tensor x) { return x + 1.f; };

TEST(RemoteArguments, ComeFromTheWorkerThatMadeThem) {
  Passing here;
  const auto add = function(kAddOne);
  for (const int to : {0, 1}) {  // the same worker, and another
    const RemoteValue made = here.coordinator.schedule_on(0, add, Tensor({1.f, 2.f}));
    const RemoteValue again = here.coordinator.schedule_on(to, add, made);
    EXPECT_EQ(here.coordinator.fetch(again).to_vector<float>(), (std::vector<float>{3, 4}));
  }
  EXPECT_EQ(add.num_traces(), 1u);
}

TEST(RemoteArguments, AreWaitedFor) {
  Passing here;
  const auto add = function(kAddOne);
  RemoteValue value = here.coordinator.schedule(add, Tensor(0.f));
  for (int i = 0; i < 200; ++i) value = here.coordinator.schedule(add, value);
  EXPECT_EQ(here.coordinator.fetch(value).to<float>(), 201);
  here.coordinator.join();
}

TEST(RemoteArguments, MayBePartsOfStructures) {
  Passing here;
  const auto both = function([](Tensor x) { return std::tuple{x, x * 10.f}; });
  const RemoteValue first = here.coordinator.schedule(both, Tensor(1.f));
  const RemoteValue second = here.coordinator.schedule(both, Tensor(2.f));
  const auto sum = here.coordinator.schedule(
      [](const std::vector<std::tuple<Tensor, Tensor>>& all, Tensor more) {
        return std::get<0>(all[0]) + std::get<1>(all[1]) + more;
      },
      std::vector{first, second}, Tensor(100.f));
  EXPECT_EQ(here.coordinator.fetch(sum).to<float>(), 121);
}

TEST(RemoteArguments, FailWithWhatTheyComeFrom) {
  Passing here;
  const RemoteValue bad = here.coordinator.schedule(
      [](Tensor x, Tensor i) { return gather(x, i, 0); }, Tensor({1.f}), Tensor({5}));
  const Status outcome = capture_status([&] {
    const RemoteValue after = here.coordinator.schedule(kAddOne, bad);
    const RemoteValue later = here.coordinator.schedule(kAddOne, after);
    here.coordinator.fetch(later);
  });
  EXPECT_TRUE(outcome.code == Code::InvalidArgument || outcome.code == Code::Cancelled)
      << outcome.to_string();
  EXPECT_ERROR(Code::InvalidArgument, "Gather", here.coordinator.fetch(bad));
  (void)capture_status([&] { here.coordinator.join(); });
  EXPECT_ERROR(Code::InvalidArgument, "Gather", here.coordinator.schedule(kAddOne, bad));
  EXPECT_EQ(here.coordinator.fetch(here.coordinator.schedule(kAddOne, Tensor(1.f))).to<float>(), 2);
}

TEST(RemoteArguments, AreStillThereWhenTheirWorkerIsNot) {
  Passing here;
  const RemoteValue made = here.coordinator.schedule_on(0, kAddOne, Tensor(1.f));
  EXPECT_EQ(here.coordinator.fetch(made).to<float>(), 2);
  here.cluster.stop("worker", 0);
  EXPECT_EQ(here.coordinator.fetch(here.coordinator.schedule_on(1, kAddOne, made)).to<float>(), 3);
  here.cluster.start("worker", 0);
  EXPECT_EQ(here.coordinator.fetch(here.coordinator.schedule_on(0, kAddOne, made)).to<float>(), 3);
}

TEST(PerWorkerValues, AreThoseOfTheWorkerThatRuns) {
  for (const bool kept : {false, true}) {
    test::CoordinatedCluster here(1, 2);
    ClusterCoordinator coordinator(here.strategy, {.remote_arguments = kept});
    const auto dataset = coordinator.create_per_worker_dataset([&] {
      return here.strategy.distribute_datasets_from_function([](const InputContext& input) {
        return data::from_tensor_slices(Tensor({float(10 * input.input_pipeline_id())})).repeat();
      });
    });
    const PerWorkerValues own = coordinator.run_on_each_worker(
        [](Iterator it) { return it.next().tensor(); }, dataset.iterator());
    EXPECT_EQ(own.size(), 2u);
    for (const int worker : {0, 1}) {
      const RemoteValue more = coordinator.schedule_on(worker, kAddOne, own);
      EXPECT_EQ(coordinator.fetch(more).to<float>(), 10 * worker + 1);
    }
    EXPECT_EQ(coordinator.fetch(own)[1].to<float>(), 10);
    EXPECT_ERROR(Code::InvalidArgument, "got 1 values for 2 workers",
                 coordinator.schedule(kAddOne, PerWorkerValues<Tensor>({own[0]})));
    EXPECT_ERROR(Code::InvalidArgument, "one value for each worker, got none",
                 coordinator.schedule(kAddOne, PerWorkerValues<Tensor>({})));
  }
}

TEST(PerWorkerVariables, AreEachWorkersOwn) {
  Passing here;
  const PerWorkerVariable seen(Tensor(5.f), "seen");
  const auto count = function([&](Tensor by) {
    Variable own = seen;
    return own.assign_add(by);
  });
  EXPECT_EQ(here.coordinator.fetch(here.coordinator.schedule_on(0, count, Tensor(1.f))).to<float>(),
            6);
  EXPECT_EQ(here.coordinator.fetch(here.coordinator.schedule_on(0, count, Tensor(1.f))).to<float>(),
            7);
  const auto values = [&] {
    std::vector<float> all;
    for (const Tensor& value : here.coordinator.read_all(seen)) all.push_back(value.to<float>());
    return all;
  };
  EXPECT_EQ(values(), (std::vector<float>{7, 5}));
  here.cluster.stop("worker", 0);
  here.cluster.start("worker", 0);
  EXPECT_EQ(values(), (std::vector<float>{5, 5}));  // begins again
  EXPECT_FALSE(seen.variable().trainable());
  EXPECT_ERROR(Code::FailedPrecondition, "'seen' is on the workers", seen.variable().read_value());
}

TEST(LateWorkers, TakePart) {
  test::CoordinatedCluster here(2, 1);
  ClusterCoordinator coordinator(here.strategy);
  Variable v = here.strategy.create([] { return Variable(0.f); });
  Variable w = here.strategy.create([] { return Variable(0.f); });
  const auto dataset = coordinator.create_per_worker_dataset([&] {
    return here.strategy.distribute_datasets_from_function([](const InputContext& input) {
      return data::from_tensor_slices(Tensor({float(input.input_pipeline_id())})).repeat();
    });
  });
  const auto iterator = dataset.iterator();
  const auto step = function([&](Iterator it) {
    const Tensor who = it.next().tensor();
    v.assign_add(1.f);
    w.assign_add(who);
    return who;
  });
  EXPECT_EQ(coordinator.fetch(coordinator.schedule(step, iterator)).to<float>(), 0);
  const std::string address = test::free_addresses(1)[0];
  TaskList workers{here.cluster.spec().task_address("worker", 0), address};
  TaskList servers;
  for (const int ps : {0, 1}) servers.push_back(here.cluster.spec().task_address("ps", ps));
  const ClusterSpec larger(std::map<std::string, TaskList>{{"ps", servers}, {"worker", workers}});
  const Server late(larger, {.job_name = "worker", .task_index = 1}, {.joins_later = true});
  EXPECT_EQ(coordinator.add_worker(address), 1);
  EXPECT_EQ(coordinator.num_workers(), 2);
  EXPECT_EQ(coordinator.fetch(coordinator.schedule_on(1, step, iterator)).to<float>(), 1);
  for (int i = 0; i < 20; ++i) coordinator.schedule(step, iterator);
  coordinator.join();
  EXPECT_EQ(v.read_value().to<float>(), 22);
  EXPECT_GE(w.read_value().to<float>(), 1);
}

// The function that makes the dataset asks the parameter server for the variable.
TEST(LateWorkers, MayHaveDatasetsThatDependOnVariables) {
  test::CoordinatedCluster here(1, 1);
  ClusterCoordinator coordinator(here.strategy);
  const Variable size = here.strategy.create([] { return Variable(3.f); });
  const auto dataset = coordinator.create_per_worker_dataset(
      [&] { return data::range(int64_t(size.read_value().to<float>())).batch(8); });
  const auto iterator = dataset.iterator();
  const auto take = function([](Iterator it) { return it.next().tensor(); });
  const std::string address = test::free_addresses(1)[0];
  const TaskList workers{here.cluster.spec().task_address("worker", 0), address};
  const TaskList servers{here.cluster.spec().task_address("ps", 0)};
  const ClusterSpec larger(std::map<std::string, TaskList>{{"ps", servers}, {"worker", workers}});
  const Server late(larger, {.job_name = "worker", .task_index = 1}, {.joins_later = true});
  coordinator.add_worker(address);
  EXPECT_EQ(coordinator.fetch(coordinator.schedule_on(1, take, iterator)).to_vector<int64_t>(),
            (std::vector<int64_t>{0, 1, 2}));
}

Tensor fetch_from(ClusterCoordinator& coordinator, int worker) {
  return coordinator.fetch(coordinator.schedule_on(worker, [] { return Tensor(1.f); }));
}

TEST(StaggeredStart, LetsLaterWorkersWait) {
  const ScopedEnvironment delays(
      ScopedEnvironment::Variables{{"TF_COORDINATOR_SCHEDULE_START_DELAY", "3600"}});
  test::CoordinatedCluster here(1, 2);
  ClusterCoordinator coordinator(here.strategy);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(fetch_from(coordinator, 0).to<float>(), 1);
  EXPECT_FALSE(here.cluster.server("worker", 0).status().sessions.empty());
  EXPECT_TRUE(here.cluster.server("worker", 1).status().sessions.empty());
}

TEST(StaggeredStart, EndsWithTheDelay) {
  const ScopedEnvironment delays({{"TF_COORDINATOR_SCHEDULE_START_DELAY", "3600"},
                                  {"TF_COORDINATOR_SCHEDULE_START_DELAY_MAX", "0.05"}});
  test::CoordinatedCluster here(1, 2);
  ClusterCoordinator coordinator(here.strategy);
  EXPECT_EQ(fetch_from(coordinator, 1).to<float>(), 1);
}

TEST(StaggeredStart, GrowsWithTheWorkersUpToALimit) {
  const ScopedEnvironment delays({{"TF_COORDINATOR_SCHEDULE_START_DELAY", "0.3"},
                                  {"TF_COORDINATOR_SCHEDULE_START_DELAY_MAX", "0.4"}});
  EXPECT_EQ(internal::start_delay(0), std::chrono::milliseconds(0));
  EXPECT_EQ(internal::start_delay(1), std::chrono::milliseconds(300));
  EXPECT_EQ(internal::start_delay(2), std::chrono::milliseconds(400));
}

}  // namespace
}  // namespace cohort
