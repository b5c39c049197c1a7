// Scheduling: what runs, where, with what, and what comes back.

#include "cohort/coordinator.h"

#include <gtest/gtest.h>

#include <set>
#include <sstream>
#include <thread>

#include "base/activity.h"
#include "support/coordinated_cluster.h"

namespace cohort {
namespace {

class Coordinating : public testing::Test, public test::CoordinatedCluster {
 protected:
  Coordinating() : CoordinatedCluster(2, 2) {}
  ClusterCoordinator coordinator{strategy};
};

TEST(ParameterServerProgram, PrintsWhatItShould) {
  test::LocalCluster cluster(1, 2);
  const SimpleClusterResolver resolver(cluster.spec());
  std::ostringstream out;
  ParameterServerStrategy strategy(resolver, {.variable_partitioner = MinSizePartitioner{}});
  ClusterCoordinator coordinator(strategy);
  Variable v = strategy.create([] { return Variable(0.f); });
  auto per_worker = coordinator.create_per_worker_dataset([&] {
    return strategy.distribute_datasets_from_function([](const InputContext&) {
      return data::from_tensor_slices(Tensor({1.f, 1.f, 1.f}));
    });
  });
  auto iterator = per_worker.iterator();
  auto step = function([&](Iterator it) {
    return strategy.run(
        [&](Tensor x) {
          v.assign_add(x);
          return v.read_value();
        },
        it.next());
  });
  RemoteValue result = coordinator.schedule(step, iterator);
  out << coordinator.fetch(result) << '\n';
  coordinator.join();
  out << coordinator.done() << '\n';
  EXPECT_EQ(out.str(), "Tensor(1., shape=(), dtype=float32)\n1\n");
}

TEST_F(Coordinating, HandlesOfOneCoordinatorAreEqual) {
  EXPECT_EQ(coordinator, ClusterCoordinator(strategy));
  test::CoordinatedCluster other(1, 1);
  EXPECT_NE(coordinator, ClusterCoordinator(other.strategy));
}

TEST_F(Coordinating, TakesEmptyLimitsAndTheZerosOfTensorFlow) {
  using std::chrono::milliseconds;
  EXPECT_ERROR(Code::InvalidArgument, "function_timeout must not be negative",
               ClusterCoordinator(strategy, {.function_timeout = milliseconds(-1)}));
  for (const std::optional<int64_t> none : {std::optional<int64_t>(), {0}, {-1}}) {
    test::CoordinatedCluster other(1, 1);
    ClusterCoordinator unlimited(other.strategy,
                                 {.queue_capacity = none, .function_timeout = milliseconds(0)});
    EXPECT_EQ(unlimited.schedule(function([] { return Tensor(3.f); })).fetch().to<float>(), 3.f);
  }
}

TEST_F(Coordinating, RunsEveryFunctionOnce) {
  Variable v = strategy.create([] { return Variable(0.f); });
  const auto add = function([&](Tensor x) { v.assign_add(x); });
  for (int i = 1; i <= 100; ++i) coordinator.schedule(add, Tensor(static_cast<float>(i)));
  coordinator.join();
  EXPECT_TRUE(coordinator.done());
  EXPECT_EQ(v.read_value().to<float>(), 5050);
  EXPECT_EQ(add.num_traces(), 1u);
}

// The coordinator replaces its session on a worker when most functions of the session are gone.
TEST_F(Coordinating, CountsAStepForEachFunctionAcrossSessions) {
  constexpr uint64_t kFunctions = 600;
  Variable v = strategy.create([] { return Variable(0.f); });
  const uint64_t before = internal::local_activity().steps;
  uint64_t last = before;
  for (uint64_t i = 1; i <= kFunctions; ++i) {
    coordinator.schedule([&] { v.assign_add(1.f); });  // a new function each time
    if (i % 20 != 0) continue;
    coordinator.join();
    const uint64_t now = internal::local_activity().steps;
    EXPECT_GE(now - before, i);
    EXPECT_GE(now, last);
    last = now;
  }
  uint64_t of_open_sessions = 0;
  for (int worker = 0; worker < 2; ++worker) {
    for (const auto& session : cluster.server("worker", worker).status().sessions) {
      of_open_sessions += session.steps;
    }
  }
  EXPECT_LT(of_open_sessions, kFunctions) << "no session was replaced";
}

TEST_F(Coordinating, FetchesStructures) {
  const auto both = function([](Tensor x) { return std::tuple{x + 1.f, std::vector{x, x * 2.f}}; });
  const RemoteValue first = coordinator.schedule(both, Tensor(3.f));
  const RemoteValue second = coordinator.schedule(both, Tensor(5.f));
  const auto [a, b] = coordinator.fetch(first);
  EXPECT_EQ(a.to<float>(), 4);
  EXPECT_EQ(b[1].to<float>(), 6);
  const auto all = coordinator.fetch(std::vector{first, second});
  EXPECT_EQ(std::get<0>(all[1]).to<float>(), 6);
  EXPECT_EQ(coordinator.fetch(std::map<std::string, int>{{"plain", 7}}).at("plain"), 7);
  EXPECT_EQ(first.status(), RemoteValueStatus::Ready);
  coordinator.fetch(coordinator.schedule(function([] {})));
}

TEST_F(Coordinating, TakesAnyCallableAndPlainArguments) {
  EXPECT_EQ(
      coordinator
          .fetch(coordinator.schedule([](Tensor x, int times) { return x * times; }, Tensor(2), 3))
          .to<int>(),
      6);
}

Tensor twice(Tensor x) { return x * 2.f; }
COHORT_FUNCTION(coordinator_test_twice, twice);

TEST_F(Coordinating, CallsRegisteredFunctionsByName) {
  const auto result =
      coordinator.schedule_native("coordinator_test_twice", {Tensor(4.f)}, {{kFloat32, {}}});
  EXPECT_EQ(coordinator.fetch(result)[0].to<float>(), 8);
  const auto nowhere = coordinator.schedule_native("nowhere", {Tensor(4.f)}, {{kFloat32, {}}});
  EXPECT_ERROR(Code::NotFound, "nowhere", coordinator.fetch(nowhere));
  EXPECT_ERROR(Code::NotFound, "nowhere", coordinator.join());
}

TEST_F(Coordinating, RunsOnAChosenWorker) {
  const auto dataset = coordinator.create_per_worker_dataset([&] {
    return strategy.distribute_datasets_from_function([](const InputContext& input) {
      return data::from_tensor_slices(Tensor({int64_t{input.input_pipeline_id()}})).repeat();
    });
  });
  const auto iterator = dataset.iterator();
  const auto who = function([](Iterator it) { return it.next().tensor(); });
  for (int i = 0; i < 6; ++i) {
    const auto result = coordinator.schedule_on(i % 2, who, iterator);
    EXPECT_EQ(coordinator.fetch(result).to<int64_t>(), i % 2);
  }
  EXPECT_ERROR(Code::InvalidArgument, "worker 2 does not exist",
               coordinator.schedule_on(2, who, iterator));
}

// Draws a number at the top, and one inside a branch.
auto draws_twice(random::Generator& generator) {
  return function([&generator] {
    const Tensor x = generator.uniform({});
    return stack({x, cond(
                         x >= 0.f, [&] { return generator.uniform({}); }, [&] { return x; })});
  });
}

// Each worker counts its own runs. If draws took these counts, two workers would draw the same
// numbers and train on the same random batches.
TEST_F(Coordinating, DrawsForTheCallAndNotForTheWorker) {
  constexpr int kCalls = 12;
  random::Generator here(7), there(7);
  const auto local = draws_twice(here);
  const auto scheduled = draws_twice(there);
  std::vector<RemoteValue<Tensor>> drawn;
  for (int i = 0; i < kCalls; ++i) drawn.push_back(coordinator.schedule(scheduled));
  std::set<std::vector<float>> different;
  for (int i = 0; i < kCalls; ++i) {
    const auto expected = local().to_vector<float>();
    EXPECT_EQ(coordinator.fetch(drawn[i]).to_vector<float>(), expected) << "call " << i;
    different.insert(expected);
  }
  EXPECT_EQ(different.size(), kCalls);
}

TEST_F(Coordinating, GivesEachWorkerItsOwnIterator) {
  const auto dataset = coordinator.create_per_worker_dataset(data::range(3));
  const auto next = function([](Iterator it) { return it.next().tensor(); });
  for (int round = 0; round < 2; ++round) {  // each iterator begins at the first element
    const auto iterator = dataset.iterator();
    for (int worker = 0; worker < 2; ++worker) {
      for (int64_t i = 0; i < 3; ++i) {
        EXPECT_EQ(coordinator.fetch(coordinator.schedule_on(worker, next, iterator)).to<int64_t>(),
                  i);
      }
      const auto ended = coordinator.schedule_on(worker, next, iterator);
      EXPECT_ERROR(Code::OutOfRange, "no more elements; repeat() the dataset, or end the loop",
                   coordinator.fetch(ended));
      EXPECT_ERROR(Code::OutOfRange, "no more elements", coordinator.join());
    }
  }
  EXPECT_EQ(next.num_traces(), 1u);
}

TEST_F(Coordinating, TakesDatasetsOfAllKinds) {
  const auto distributed = strategy.distribute_datasets_from_function([](const InputContext& in) {
    return data::from_tensor_slices(Tensor({int64_t{10 * in.input_pipeline_id()}}));
  });
  EXPECT_ERROR(Code::InvalidArgument, "create_per_worker_dataset", distributed.iterator());
  EXPECT_ERROR(Code::InvalidArgument, "create_per_worker_dataset", distributed.cardinality());
  const auto iterator = coordinator.create_per_worker_dataset(distributed).iterator();
  const auto next = function([](Iterator it) { return it.next().tensor(); });
  EXPECT_EQ(coordinator.fetch(coordinator.schedule_on(1, next, iterator)).to<int64_t>(), 10);
  EXPECT_ERROR(Code::Unimplemented, "schedule", iterator.next());
}

TEST_F(Coordinating, RefusesDatasetsThatCannotBeSent) {
  EXPECT_ERROR(Code::InvalidArgument, "makes variable 'hidden'",
               coordinator.create_per_worker_dataset([] {
                 const Variable v(1.f, {.name = "hidden"});
                 return data::range(3);
               }));
  EXPECT_ERROR(
      Code::FailedPrecondition, "[Map]",
      coordinator.create_per_worker_dataset(data::range(3).map([](int64_t x) { return x + 1; })));
}

TEST_F(Coordinating, RefusesWhatCannotBeSent) {
  const Variable here(1.f, {.name = "here"});
  EXPECT_ERROR(Code::FailedPrecondition, "variable 'here' of this process",
               coordinator.schedule(function([&] { return here.read_value(); })));
  const RemoteValue value = coordinator.schedule([] { return Tensor(1.f); });
  EXPECT_ERROR(Code::InvalidArgument, "RemoteValue",
               coordinator.schedule([](Tensor x) { return x; }, value));
  coordinator.join();
}

TEST_F(Coordinating, IsOneForOneStrategy) {
  ClusterCoordinator again(strategy);
  Variable v = strategy.create([] { return Variable(0.f); });
  again.schedule([&] { v.assign_add(1.f); });
  coordinator.join();
  EXPECT_EQ(v.read_value().to<float>(), 1);
  MirroredStrategy other({"CPU:0"});
  EXPECT_ERROR(Code::InvalidArgument, "cohort run --strategy parameter_server",
               ClusterCoordinator(other));
}

TEST_F(Coordinating, MayBeMadeAgain) {
  test::CoordinatedCluster here(1, 1);
  Variable v = here.strategy.create([] { return Variable(0.f); });
  for (int i = 1; i <= 3; ++i) {
    ClusterCoordinator again(here.strategy);
    again.join();  // with nothing to do
    again.schedule([&] { v.assign_add(1.f); });
    again.join();
    again.join();
    EXPECT_EQ(v.read_value().to<float>(), i);
  }
}

TEST_F(Coordinating, TakesFunctionsFromManyThreads) {
  Variable v = strategy.create([] { return Variable(0.f); });
  const auto add = function([&] { v.assign_add(1.f); });
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 25; ++k) coordinator.schedule(add);
      coordinator.join();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(coordinator.done());
  EXPECT_EQ(v.read_value().to<float>(), 100);
}

TEST_F(Coordinating, EndsTheServers) {
  coordinator.fetch(coordinator.schedule([] { return Tensor(1.f); }));
  coordinator.shutdown_cluster();
  cluster.server("ps", 0).join();
  cluster.server("worker", 1).join();
  EXPECT_ERROR(Code::Cancelled, "shut down", coordinator.schedule([] { return Tensor(1.f); }));
}

}  // namespace
}  // namespace cohort
