// Datasets of workers, and arguments.

#include <gtest/gtest.h>

#include <atomic>

#include "support/coordinated_cluster.h"

namespace cohort {
namespace {

class WorkersInput : public testing::Test, public test::CoordinatedCluster {
 protected:
  WorkersInput() : CoordinatedCluster(1, 2) {}
  ClusterCoordinator coordinator{strategy};

  // The first elements of a worker's dataset.
  std::vector<int64_t> first(const PerWorkerDataset& dataset, int worker, int count) {
    const PerWorkerIterator iterator = dataset.iterator();
    const auto next = function([](Iterator it) { return it.next().tensor(); });
    std::vector<int64_t> seen;
    for (int i = 0; i < count; ++i) {
      seen.push_back(
          coordinator.fetch(coordinator.schedule_on(worker, next, iterator)).to<int64_t>());
    }
    return seen;
  }
};
using Numbers = std::vector<int64_t>;

TEST_F(WorkersInput, IsWholeForEachWhateverItsOptionsSay) {
  const auto sharded = data::range(4).options({.auto_shard_policy = data::AutoShardPolicy::Data});
  for (const int worker : {0, 1}) {
    EXPECT_EQ(first(coordinator.create_per_worker_dataset(sharded), worker, 3), (Numbers{0, 1, 2}));
    EXPECT_EQ(first(coordinator.create_per_worker_dataset([&] { return sharded; }), worker, 3),
              (Numbers{0, 1, 2}));
  }
}

TEST_F(WorkersInput, MayComeFromADistributedDataset) {
  const auto distributed = strategy.distribute_dataset(data::range(6).batch(2));
  const PerWorkerDataset dataset = coordinator.create_per_worker_dataset(distributed);
  const auto next = function([](Iterator it) { return it.next().tensor(); });
  const auto got = coordinator.fetch(coordinator.schedule_on(1, next, dataset.iterator()));
  EXPECT_EQ(got.to_vector<int64_t>(), (Numbers{0, 1}));
}

TEST_F(WorkersInput, IsShuffledDifferentlyUnlessTheUserChoseASeed) {
  const auto unseeded = coordinator.create_per_worker_dataset(data::range(40).shuffle(40));
  EXPECT_NE(first(unseeded, 0, 40), first(unseeded, 1, 40));
  const auto seeded =
      coordinator.create_per_worker_dataset(data::range(40).shuffle(40, {.seed = 3}));
  EXPECT_EQ(first(seeded, 0, 40), first(seeded, 1, 40));
}

// A probe would take an element from a source that the coordinator shares with the workers.
TEST_F(WorkersInput, OfAGeneratorIsDeclared) {
  static std::atomic<int64_t> made{0};
  const auto numbers = data::register_generator("input_test_numbers", [] {
    return data::NextFunction([] { return data::Element(made++); });
  });
  const auto undeclared = coordinator.create_per_worker_dataset(data::generator(numbers));
  EXPECT_ERROR(Code::FailedPrecondition, "generator(f, spec)", undeclared.element_spec());
  EXPECT_ERROR(Code::FailedPrecondition, "generator(f, spec)", first(undeclared, 0, 1));
  const data::ElementSpec number(TensorSpec{kInt64, {}});
  const auto declared = coordinator.create_per_worker_dataset(data::generator(numbers, number));
  EXPECT_EQ(first(declared, 0, 2), (Numbers{0, 1}));
}

TEST_F(WorkersInput, IsAskedForOncePerWorkerWithItsPlace) {
  std::vector<std::string> calls;
  const PerWorkerDataset dataset = coordinator.create_per_worker_dataset([&] {
    return strategy.distribute_datasets_from_function([&](const InputContext& input) {
      calls.push_back(std::to_string(input.input_pipeline_id()) + " of " +
                      std::to_string(input.num_input_pipelines()));
      return data::range(10).shard(input.num_input_pipelines(), input.input_pipeline_id());
    });
  });
  EXPECT_EQ(calls, (std::vector<std::string>{"0 of 2", "1 of 2"}));
  EXPECT_EQ(first(dataset, 0, 3), (Numbers{0, 2, 4}));
  EXPECT_EQ(first(dataset, 1, 3), (Numbers{1, 3, 5}));
  EXPECT_EQ(calls.size(), 2u);  // iterators need no more
}

TEST_F(WorkersInput, IsNotIteratedInTracedCode) {
  const PerWorkerDataset dataset = coordinator.create_per_worker_dataset(data::range(3));
  EXPECT_ERROR(Code::FailedPrecondition, "pass the iterator as an argument",
               coordinator.schedule([&] {
                 (void)dataset.iterator();
                 return Tensor(1.f);
               }));
  EXPECT_TRUE(coordinator.done());
  EXPECT_EQ(first(dataset, 0, 1), (Numbers{0}));
}

TEST_F(WorkersInput, RefusesResultsOfOthersAnywhere) {
  const RemoteValue value = coordinator.schedule([] { return Tensor(1.f); });
  const auto sum_of = [](const std::vector<Tensor>& all) { return all[0] + all[1]; };
  EXPECT_ERROR(Code::InvalidArgument, "fetch() it first",
               coordinator.schedule(sum_of, std::vector{value, value}));
  EXPECT_ERROR(Code::InvalidArgument, "fetch() it first",
               coordinator.schedule_on(
                   1, [](const std::pair<Tensor, Tensor>& two) { return two.first; },
                   std::pair{Tensor(1.f), value}));
  coordinator.join();
  EXPECT_EQ(coordinator.fetch(value).to<float>(), 1);
}

TEST_F(WorkersInput, IsTakenInTheOrderOfScheduling) {
  test::CoordinatedCluster one(1, 1);
  ClusterCoordinator single(one.strategy, {.functions_per_worker = 1});
  Variable v = one.strategy.create([] { return Variable(0.f); });
  const auto append = function([&](Tensor digit) { v.assign(v * 10.f + digit); });
  for (int i = 1; i <= 6; ++i) single.schedule(append, Tensor(static_cast<float>(i)));
  single.join();
  EXPECT_EQ(v.read_value().to<float>(), 123456);
}

// No process listens at the addresses of the chief and the evaluator.
TEST(Tasks, OtherThanServersAndWorkersAreNeverCalled) {
  const std::vector<std::string> at = test::free_addresses(4);
  const ClusterSpec cluster(std::map<std::string, TaskList>{
      {"chief", {at[0]}}, {"evaluator", {at[1]}}, {"ps", {at[2]}}, {"worker", {at[3]}}});
  Server ps(cluster, {.job_name = "ps", .task_index = 0});
  Server worker(cluster, {.job_name = "worker", .task_index = 0});
  const SimpleClusterResolver resolver(cluster, {.task_type = "chief", .task_id = 0});
  ParameterServerStrategy strategy(resolver);
  ClusterCoordinator coordinator(strategy);
  Variable v = strategy.create([] { return Variable(1.f); });
  coordinator.schedule([&] { v.assign_add(1.f); });
  coordinator.join();
  EXPECT_EQ(v.read_value().to<float>(), 2);
  coordinator.shutdown_cluster();
  ps.join();
  worker.join();
}

TEST(Tasks, ThatAreNoChiefCallNobodyForAStrategy) {
  const ClusterSpec nobody = test::free_cluster(1, 1);
  for (const char* role : {"worker", "ps", "evaluator"}) {
    const SimpleClusterResolver resolver(nobody, {.task_type = role, .task_id = 0});
    const ParameterServerStrategy strategy(resolver);
    EXPECT_EQ(strategy.num_replicas_in_sync(), 1) << role;
  }
}

}  // namespace
}  // namespace cohort
