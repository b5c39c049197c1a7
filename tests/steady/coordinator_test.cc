// Calls of a coordinator, made again and again, leave nothing behind here, on workers and on
// parameter servers.

#include <gtest/gtest.h>

#include "steady/holdings.h"
#include "support/coordinated_cluster.h"
#include "support/free_ports.h"

namespace cohort {
namespace {

using test::calls;
using test::drive;
using test::Holdings;
using test::process_holdings;

// A chief, a parameter server and a worker.
struct Coordinated : test::CoordinatedCluster {
  explicit Coordinated(const ParameterServerOptions& options = {})
      : CoordinatedCluster(1, 1, options), coordinator(strategy) {}

  Holdings holdings() {
    Holdings all = process_holdings();
    all["plans"] = static_cast<int64_t>(cluster.server("worker", 0).status().plans +
                                        cluster.server("ps", 0).status().plans);
    all["handles"] = test::session_handles(cluster.server("worker", 0)) +
                     test::session_handles(cluster.server("ps", 0)) +
                     static_cast<int64_t>(strategy.plan().variables.size());
    return all;
  }

  ClusterCoordinator coordinator;
  Variable v = strategy.create([] { return Variable(0.f, {.name = "v"}); });
};

TEST(SteadyCalls, OfACoordinatorAddNothing) {
  Coordinated here;
  const auto measure = [&] { return here.holdings(); };
  const auto add = function([&](Tensor by) { here.v.assign_add(by); });
  drive("schedule(function)", calls(2000), measure, [&](int) {
    here.coordinator.schedule(add, Tensor(1.f));
    here.coordinator.join();
  });
  drive(
      "schedule(lambda)", calls(400), measure,
      [&](int i) {
        here.coordinator.schedule([&] { here.v.assign_add(float(i)); });
        here.coordinator.join();
      },
      test::kMoreBytesOfGraphs);
  const auto take = function([](data::Iterator it) { return it.next().tensor(); });
  // The first element fills the iterator's buffer with 80 kB: so the bytes tell an iterator that
  // stays on the worker. The description of the data, which a graph keeps for a while, is short.
  drive(
      "iterators that are dropped", calls(200), measure,
      [&](int) {
        const auto numbers = data::range(10'000).batch(100).shuffle(100);
        const auto it = here.coordinator.create_per_worker_dataset(numbers).iterator();
        (void)here.coordinator.fetch(here.coordinator.schedule(take, it));
      },
      test::kMoreBytesOfGraphs);
  drive(
      "variables that are dropped", calls(200), measure,
      [&](int) {
        const Variable large = here.strategy.create([] { return Variable(zeros({10'000})); });
        EXPECT_EQ(here.strategy.plan().variables.size(), 2u);
      },
      test::kMoreBytesOfGraphs);
  drive("done", calls(1000), measure, [&](int) { EXPECT_TRUE(here.coordinator.done()); });
  drive("reading a variable", calls(1000), measure, [&](int) { (void)here.v.read_value(); });
  drive("assigning a variable", calls(1000), measure, [&](int i) { here.v.assign(float(i)); });
}

TEST(SteadyCalls, OfAKnownFunctionReleaseWhatWasDropped) {
  Coordinated here;
  const auto add = function([&](Tensor by) { here.v.assign_add(by); });
  const auto call = [&] {
    here.coordinator.schedule(add, Tensor(1.f));
    here.coordinator.join();
  };
  call();
  const int64_t before = process_holdings().at("bytes");
  constexpr int64_t kElements = 8'000'000;
  {
    const PerWorkerVariable large(zeros({kElements}));
    (void)here.coordinator.fetch(
        here.coordinator.run_on_each_worker([&] { return sum(large.variable().read_value()); }));
  }
  call();
  EXPECT_LT(process_holdings().at("bytes"), before + kElements);  // it has 4 bytes per element
}

TEST(SteadyCalls, OfSynchronousTrainingAddNothing) {
  Coordinated here({.sync = true});
  const auto measure = [&] { return here.holdings(); };
  optim::Sgd sgd;
  const auto step =
      function([&](Tensor x) { sgd.minimize([&] { return square(here.v - x); }, {here.v}); });
  const auto train = [&] {
    here.coordinator.schedule(step, Tensor(1.f));
    here.coordinator.join();
  };
  drive("steps", calls(1000), measure, [&](int) { train(); });
  drive(
      "learning rates", calls(200), measure,
      [&](int i) {
        sgd.set_learning_rate(0.1 / (1 + i));
        train();
      },
      test::kMoreBytesOfGraphs);
  drive(
      "two learning rates in turn", calls(200), measure,
      [&](int i) {
        sgd.set_learning_rate(i % 2 == 0 ? 0.1 : 0.2);
        train();
      },
      test::kMoreBytesOfGraphs);
  drive(
      "lambdas", calls(200), measure,
      [&](int) {
        here.coordinator.schedule(
            [&] { sgd.minimize([&] { return square(here.v - 1.f); }, {here.v}); });
        here.coordinator.join();
      },
      test::kMoreBytesOfGraphs);
  drive(
      "variables and optimizers that are dropped", calls(200), measure,
      [&](int) {
        const Variable dropped = here.strategy.create([] { return Variable(zeros({10'000})); });
        optim::Sgd own;
        here.coordinator.schedule(
            [&] { own.minimize([&] { return sum(square(dropped)); }, {dropped}); });
        here.coordinator.join();
        EXPECT_LE(here.strategy.plan().variables.size(), 6u);
      },
      test::kMoreBytesOfGraphs);
}

TEST(SteadyCalls, ThatCannotBePlacedAddNothing) {
  Coordinated here;
  const auto measure = [&] { return here.holdings(); };
  drive("functions", calls(200), measure, [&](int) {
    const auto failed = here.coordinator.schedule([] {
      const auto on = device("/gpu:0");
      return ones({2}) + constant(1.f);
    });
    EXPECT_ERROR(Code::InvalidArgument, "cannot be placed", (void)here.coordinator.fetch(failed));
    EXPECT_ERROR(Code::InvalidArgument, "cannot be placed", here.coordinator.join());
  });
}

// Servers and workers forget what belonged to a strategy or a coordinator that has ended.
TEST(SteadyCalls, OfParameterServerStrategiesThatAreDroppedAddNothing) {
  const test::LocalCluster cluster(1, 1);
  const SimpleClusterResolver resolver(cluster.spec());
  drive(
      "strategies", calls(20), process_holdings,
      [&](int) {
        ParameterServerStrategy strategy(resolver);
        const Variable large = strategy.create([] { return Variable(zeros({1'000'000})); });
        (void)large.read_value();
      },
      test::kMoreBytesOfGraphs);
  drive(
      "coordinators", calls(20), process_holdings,
      [&](int) {
        ParameterServerStrategy strategy(resolver);
        ClusterCoordinator coordinator(strategy);
        const PerWorkerVariable large(zeros({1'000'000}));
        (void)coordinator.fetch(
            coordinator.run_on_each_worker([&] { return sum(large.variable().read_value()); }));
      },
      test::kMoreBytesOfGraphs);
}

// Workers and servers keep the plans of the numbers that a function was called with last.
TEST(SteadyCalls, WithNewNumbersKeepTheLatestPlans) {
  Coordinated here;
  const auto add = function([&](int by) { here.v.assign_add(float(by)); });
  float expected = 0;
  for (int i = 0; i < 600; ++i) {
    here.coordinator.schedule(add, i);
    here.coordinator.join();
    expected += float(i);
    EXPECT_LE(here.cluster.server("worker", 0).status().plans, 270u) << i;
    EXPECT_LE(here.cluster.server("ps", 0).status().plans, 270u) << i;
  }
  EXPECT_EQ(here.v.read_value().to<float>(), expected);
}

Tensor twice(Tensor x) { return x * 2.f; }
COHORT_FUNCTION(steady_calls_twice, twice);

TEST(SteadyCalls, OfACoordinatorOnEveryWorkerAddNothing) {
  Coordinated here;
  const auto measure = [&] { return here.holdings(); };
  drive("schedule_native", calls(1000), measure, [&](int i) {
    const auto result = here.coordinator.schedule_native("steady_calls_twice", {Tensor(float(i))},
                                                         {{kFloat32, {}}});
    EXPECT_EQ(here.coordinator.fetch(result)[0].to<float>(), 2 * float(i));
  });
  drive(
      "run_on_each_worker", calls(200), measure,
      [&](int i) {
        (void)here.coordinator.fetch(
            here.coordinator.run_on_each_worker([i] { return Tensor(float(i)); }));
      },
      test::kMoreBytesOfGraphs);
  const auto add = [&](int count, const std::string& what, bool reads) {
    drive(
        what, count, measure,
        [&, reads](int) {
          const PerWorkerVariable seen(zeros({10'000}), "seen");
          here.coordinator.schedule([&] {
            Variable own = seen;
            own.assign_add(ones({10'000}));
          });
          here.coordinator.join();
          if (reads) (void)here.coordinator.read_all(seen);
        },
        test::kMoreBytesOfGraphs);
  };
  add(calls(200), "variables of workers that are dropped", false);
  add(calls(200), "variables of workers that are read and dropped", true);
}

TEST(SteadyCalls, OfCoordinatorsThatAreDroppedAddNothing) {
  test::CoordinatedCluster here(1, 1);
  const auto value = function([] { return Tensor(3.f); });
  const auto measure = [&] {
    Holdings all = process_holdings();
    const ServerStatus status = here.cluster.server("worker", 0).status();
    all["plans"] = static_cast<int64_t>(status.plans);
    all["handles"] = test::session_handles(here.cluster.server("worker", 0)) +
                     test::session_handles(here.cluster.server("ps", 0));
    return all;
  };
  drive(
      "coordinators", calls(100), measure,
      [&](int) {
        ClusterCoordinator coordinator(here.strategy);
        EXPECT_EQ(coordinator.fetch(coordinator.schedule(value)).to<float>(), 3.f);
      },
      test::kMoreBytesOfThreads);
}

// Each takes some tenths of a second: three servers begin and end.
TEST(SteadyCalls, OfWorkersThatAreAddedAddNothing) {
  drive(
      "add_worker", std::min(calls(5), 50), process_holdings,
      [](int) {
        test::CoordinatedCluster here(1, 1);
        ClusterCoordinator coordinator(here.strategy);
        const std::string address = test::free_addresses(1)[0];
        const ClusterSpec larger{
            {"ps", {here.cluster.spec().task_address("ps", 0)}},
            {"worker", {here.cluster.spec().task_address("worker", 0), address}}};
        const Server late(larger, {.job_name = "worker", .task_index = 1}, {.joins_later = true});
        EXPECT_EQ(coordinator.add_worker(address), 1);
        const auto value = coordinator.schedule_on(1, [] { return Tensor(3.f); });
        EXPECT_EQ(coordinator.fetch(value).to<float>(), 3.f);
      },
      test::kMoreBytesOfThreads);
}

}  // namespace
}  // namespace cohort
