// One client, a graph over several tasks, all in this process.

#include <gtest/gtest.h>

#include "cohort/cohort.h"
#include "cohort/server.h"
#include "support/expect_error.h"
#include "support/free_ports.h"

namespace cohort {
namespace {

TEST(InGraph, AGraphRunsOnTwoTasks) {
  const ClusterSpec cluster = test::free_cluster(1, 1);
  Server ps(cluster, {.job_name = "ps", .task_index = 0});
  Server worker(cluster, {.job_name = "worker", .task_index = 0});

  Graph graph;
  auto building = graph.as_default();
  Tensor w, b, x, y;
  {
    auto on = device("/job:ps/task:0");
    w = get_variable("w", {.shape = {2, 4}, .initializer = ones()});
    b = get_variable("b", {.shape = {4}, .initializer = zeros()});
  }
  {
    auto on = device("/job:worker/task:0");
    x = placeholder(kFloat32, {-1, 2});
    y = matmul(x, w) + b;
  }
  Session session(worker.target());
  session.run(global_variables_initializer());
  for (int i = 0; i < 10; ++i) {
    const Tensor result = session.run(y, {{x, Tensor({{1.f, 2.f}})}});
    EXPECT_EQ(result.to_vector<float>(), (std::vector<float>{3, 3, 3, 3}));
  }
}

}  // namespace
}  // namespace cohort
