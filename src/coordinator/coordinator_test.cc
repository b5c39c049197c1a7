#include <gtest/gtest.h>

#include <sstream>

#include "cohort/cohort.h"
#include "support/expect_error.h"
#include "support/local_cluster.h"

namespace cohort {
namespace {

class Coordinating : public testing::Test {
 protected:
  test::LocalCluster cluster_{2, 2};
  SimpleClusterResolver resolver_{cluster_.spec()};
};

// PROGRAMS.md, P10.
TEST_F(Coordinating, RunsTheProgramOfTheSeeds) {
  const SimpleClusterResolver& resolver = resolver_;
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

}  // namespace
}  // namespace cohort
