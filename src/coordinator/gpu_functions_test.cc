// Functions that workers run on simulated GPUs.

#include <gtest/gtest.h>

#include "cohort/simulated_gpus.h"
#include "support/coordinated_cluster.h"

namespace cohort {
namespace {

class GpuFunctions : public testing::Test {
 protected:
  GpuFunctions() { make_simulated_gpus(2); }
};

TEST_F(GpuFunctions, RunOnTheGpuOfTheirScope) {
  test::CoordinatedCluster cluster(1, 1);
  ClusterCoordinator coordinator(cluster.strategy);
  const Variable weights = cluster.strategy.create([] { return Variable(ones({100})); });
  const int64_t before = simulated_gpu_status("GPU:1").kernels;
  const auto step = function([&] {
    const auto on = device("GPU:1");
    return sum(square(weights.read_value() + 1.f));
  });
  EXPECT_EQ(coordinator.schedule(step).fetch().to<float>(), 400.f);
  EXPECT_GT(simulated_gpu_status("GPU:1").kernels, before);
}

}  // namespace
}  // namespace cohort
