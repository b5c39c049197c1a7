// Graphs on simulated GPUs: of this process, and of the tasks of a cluster.

#include <gtest/gtest.h>

#include <algorithm>

#include "cohort/cohort.h"
#include "cohort/graph_training.h"
#include "cohort/simulated_gpus.h"
#include "support/expect_error.h"
#include "support/local_cluster.h"

namespace cohort {
namespace {

class GpuSessions : public ::testing::Test {
 protected:
  GpuSessions() { make_simulated_gpus(2); }
};

// Not ones(): a graph is being built.
Tensor hundred_ones() { return Tensor::from(std::vector<float>(100, 1.f), {100}); }

int64_t kernels_of(const char* gpu) { return simulated_gpu_status(gpu).kernels; }

// A value that goes from the CPU over both GPUs.
struct Chain {
  explicit Chain(const std::string& task) {
    x = placeholder(kFloat32, {100});
    Tensor at_first;
    {
      auto on = device(task + "/device:GPU:0");
      at_first = matmul(reshape(x, {10, 10}), reshape(x, {10, 10}));
    }
    auto on = device(task + "/device:GPU:1");
    y = sum(at_first + 1.f);
  }
  Tensor x, y;
};

TEST_F(GpuSessions, RunNodesOnTheirGpus) {
  Graph graph;
  auto building = graph.as_default();
  const Chain chain("");
  Session session;
  const int64_t first = kernels_of("GPU:0");
  const int64_t second = kernels_of("GPU:1");
  const Tensor y = session.run(chain.y, {{chain.x, hundred_ones()}});
  EXPECT_EQ(y.to<float>(), 1100.f);
  EXPECT_EQ(y.device(), canonical_device("CPU:0"));
  EXPECT_GT(kernels_of("GPU:0"), first);
  EXPECT_GT(kernels_of("GPU:1"), second);
}

TEST_F(GpuSessions, KeepVariablesOnTheirGpus) {
  Graph graph;
  auto building = graph.as_default();
  Tensor update;
  Variable v;
  {
    auto on = device("GPU:1");
    v = Variable(ones({100}), {.name = "v"});
    update = v.assign_add(ones({100}));
  }
  Session session;
  session.run(global_variables_initializer());
  session.run(update);
  EXPECT_EQ(session.run(v.read_value()).to_vector<float>()[9], 2.f);
  EXPECT_GE(simulated_gpu_status("GPU:1").memory_in_use, 400);
}

TEST_F(GpuSessions, SoftPlacementMovesNodesOfMissingGpus) {
  Graph graph;
  auto building = graph.as_default();
  Tensor y;
  {
    auto on = device("GPU:7");
    y = ones({4}) + 1.f;
  }
  Session hard;
  EXPECT_ERROR(Code::InvalidArgument, "GPU:7", hard.run(y));
  Session soft("", {.allow_soft_placement = true});
  EXPECT_EQ(soft.run(y).to_vector<float>()[0], 2.f);
}

TEST_F(GpuSessions, ServersAnnounceTheirGpus) {
  test::LocalCluster cluster(1, 1);
  const Graph graph;
  Session session(graph, cluster.target());
  const std::vector<std::string> devices = session.list_devices();
  for (const char* name :
       {"/job:ps/replica:0/task:0/device:GPU:1", "/job:worker/replica:0/task:0/device:GPU:0"}) {
    EXPECT_NE(std::ranges::find(devices, name), devices.end()) << name;
  }
}

TEST_F(GpuSessions, RunOnTheGpusOfOtherTasks) {
  test::LocalCluster cluster(1, 1);
  Graph graph;
  auto building = graph.as_default();
  const Chain chain("/job:ps/task:0");
  Session session(cluster.target());
  const int64_t first = kernels_of("GPU:0");
  EXPECT_EQ(session.run(chain.y, {{chain.x, hundred_ones()}}).to<float>(), 1100.f);
  EXPECT_GT(kernels_of("GPU:0"), first);
}

}  // namespace
}  // namespace cohort
