// Where the parts of a session's graph run, and what their tasks send each other.

#include <gtest/gtest.h>

#include "cohort/cohort.h"
#include "support/expect_error.h"
#include "support/local_cluster.h"
#include "tensor/devices.h"

namespace cohort {
namespace {

TEST(RemoteSession, ListsTheDevicesOfAllTasks) {
  internal::ensure_cpu_devices(2);
  test::LocalCluster cluster(1, 1);
  const Graph graph;
  Session session(graph, cluster.target());
  EXPECT_EQ(session.list_devices(),
            (std::vector<std::string>{"/job:ps/replica:0/task:0/device:CPU:0",
                                      "/job:ps/replica:0/task:0/device:CPU:1",
                                      "/job:worker/replica:0/task:0/device:CPU:0",
                                      "/job:worker/replica:0/task:0/device:CPU:1"}));
}

TEST(RemoteSession, DevicesOfATaskExchangeTensorsToo) {
  internal::ensure_cpu_devices(2);
  test::LocalCluster cluster(1, 1);
  Graph graph;
  auto building = graph.as_default();
  Tensor y = placeholder(kFloat32, {});
  const Tensor x = y;
  for (int i = 0; i < 3; ++i) {
    for (const char* place :
         {"/job:ps/task:0/device:CPU:0", "/job:ps/task:0/device:CPU:1", "/job:worker/task:0"}) {
      auto on = device(place);
      y = y + 1.f;
    }
  }
  Session session(cluster.target());
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(session.run(y, {{x, Tensor(1.f)}}).to<float>(), 10);
  }
  {
    auto on = device("/job:ps/task:0/device:CPU:9");
    y = y + 1.f;
  }
  EXPECT_ERROR(Code::InvalidArgument, "device:CPU:9", session.run(y, {{x, Tensor(1.f)}}));
}

// What stays on a task keeps all its bits.
TEST(RemoteSession, FloatsMayBeSentAsBfloat16) {
  test::LocalCluster cluster(1, 1);
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, {3});
  const Tensor d = placeholder(kFloat64, {});
  Tensor here, there, exact;
  {
    auto on = device("/job:ps/task:0");
    here = x + 0.f;
    exact = d + 0.0;
  }
  {
    auto on = device("/job:worker/task:0");
    there = here * 1.f;
    exact = exact * 1.0;
  }
  const Feeds feeds{{x, Tensor({1.f, 1.00001f, -3.14159f})}, {d, Tensor(1.00001)}};
  Session whole(cluster.target()), shorter(cluster.target(), {.enable_bfloat16_sendrecv = true});
  EXPECT_EQ(whole.run(there, feeds).to_vector<float>(),
            (std::vector<float>{1.f, 1.00001f, -3.14159f}));
  EXPECT_EQ(shorter.run(there, feeds).to_vector<float>(),
            (std::vector<float>{1.f, 1.f, -3.140625f}));
  EXPECT_EQ(shorter.run(here, feeds).to_vector<float>(),
            (std::vector<float>{1.f, 1.00001f, -3.14159f}));
  EXPECT_EQ(shorter.run(exact, feeds).to<double>(), 1.00001);
}

TEST(RemoteSession, SoftPlacementMovesWithinATask) {
  test::LocalCluster cluster(1, 1);
  Graph graph;
  auto building = graph.as_default();
  Tensor y;
  {
    auto on = device("/job:ps/task:0/device:GPU:0");
    y = neg(constant(1.f)) + zeros({});
  }
  Session hard(cluster.target());
  EXPECT_ERROR(Code::InvalidArgument, "GPU:0", hard.run(y));
  Session soft(cluster.target(), {.allow_soft_placement = true});
  EXPECT_EQ(soft.run(y).to<float>(), -1);
}

TEST(RemoteSession, DeviceFiltersHideTasks) {
  test::LocalCluster cluster(1, 2);
  Graph graph;
  auto building = graph.as_default();
  Tensor x;
  {
    auto on = device("/job:worker/task:1");
    x = neg(constant(1.f));
  }
  Session all(cluster.target());
  EXPECT_EQ(all.run(x).to<float>(), -1);
  Session filtered(cluster.target(), {.device_filters = {"/job:ps"}});
  EXPECT_ERROR(Code::InvalidArgument, "/job:worker/task:1", filtered.run(x));
  EXPECT_EQ(filtered.list_devices().size(), all.list_devices().size() / 3 * 2);
  EXPECT_ERROR(Code::InvalidArgument, "nonsense",
               Session(cluster.target(), {.device_filters = {"nonsense"}}));
}

}  // namespace
}  // namespace cohort
