// Calls of a coordinator, made again and again, leave nothing behind here, on workers and on
// parameter servers.

#include <gtest/gtest.h>

#include "steady/holdings.h"
#include "support/coordinated_cluster.h"

namespace cohort {
namespace {

using test::calls;
using test::drive;
using test::Holdings;
using test::process_holdings;

// A chief, a parameter server and a worker.
struct Coordinated : test::CoordinatedCluster {
  Coordinated() : CoordinatedCluster(1, 1), coordinator(strategy) {}

  Holdings holdings() {
    Holdings all = process_holdings();
    all["plans"] = static_cast<int64_t>(cluster.server("worker", 0).status().plans +
                                        cluster.server("ps", 0).status().plans);
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
  drive(
      "iterators that are dropped", calls(200), measure,
      [&](int) {
        const auto it = here.coordinator.create_per_worker_dataset(data::range(4)).iterator();
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
  drive("reading a variable", calls(1000), measure, [&](int) { (void)here.v.read_value(); });
  drive("assigning a variable", calls(1000), measure, [&](int i) { here.v.assign(float(i)); });
}

}  // namespace
}  // namespace cohort
