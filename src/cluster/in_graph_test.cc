// One client, a graph over several tasks, all in this process.

#include <gtest/gtest.h>

#include "cohort/cohort.h"
#include "cohort/graph_training.h"
#include "support/expect_error.h"
#include "support/local_cluster.h"

namespace cohort {
namespace {

// y = x w + b with the variables on a ps, the product on a worker.
struct Linear {
  Graph graph;
  Graph::Scope building = graph.as_default();
  Tensor x, y, initialize;

  Linear() {
    Tensor w, b;
    {
      auto on = device("/job:ps/task:0");
      w = get_variable("w", {.shape = {2, 4}, .initializer = ones()});
      b = get_variable("b", {.shape = {4}, .initializer = zeros()});
    }
    auto on = device("/job:worker/task:0");
    x = placeholder(kFloat32, {-1, 2});
    y = matmul(x, w) + b;
    initialize = global_variables_initializer();
  }
};

Variable variable_on(const char* place, const char* name, const Shape& shape) {
  auto on = device(place);
  return get_variable(name, {.shape = shape});
}

TEST(InGraph, AGraphRunsOnTwoTasks) {
  test::LocalCluster cluster(1, 1);
  Linear model;
  Session session(cluster.target());
  session.run(model.initialize);
  for (int i = 0; i < 10; ++i) {
    const Tensor result = session.run(model.y, {{model.x, Tensor({{1.f, 2.f}})}});
    EXPECT_EQ(result.to_vector<float>(), (std::vector<float>{3, 3, 3, 3}));
  }
}

TEST(InGraph, AnyServerIsMaster) {
  test::LocalCluster cluster(1, 2);
  Linear model;
  for (const std::string& target : {cluster.target("ps", 0), cluster.target("worker", 1)}) {
    Session session(target);
    session.run(model.initialize);
    EXPECT_EQ(session.run(model.y, {{model.x, Tensor({{1.f, 1.f}})}}).to_vector<float>(),
              (std::vector<float>{2, 2, 2, 2}));
  }
}

TEST(InGraph, PlacementLinesGoToStderr) {
  test::LocalCluster cluster(1, 1);
  Linear model;
  Session session(cluster.target(), {.log_device_placement = true});
  testing::internal::CaptureStderr();
  session.run(model.initialize);
  const std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_NE(lines.find("MatMul: (MatMul): /job:worker/replica:0/task:0/device:CPU:0\n"),
            std::string::npos)
      << lines;
  EXPECT_NE(lines.find("w: (VariableHandle): /job:ps/replica:0/task:0/device:CPU:0\n"),
            std::string::npos)
      << lines;
}

TEST(InGraph, AServersDefaultsApplyToSessionsThatDidNotAsk) {
  test::LocalCluster cluster(1, 1, {.session = {.log_device_placement = true}});
  Linear model;
  Session session(cluster.target());
  testing::internal::CaptureStderr();
  session.run(model.initialize);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("MatMul: (MatMul): /job:worker"),
            std::string::npos);
}

TEST(InGraph, AServersLimitHoldsUnlessTheSessionOrTheRunSaysOtherwise) {
  using std::chrono::milliseconds;
  test::LocalCluster cluster(
      1, 1, {.session = {.allow_soft_placement = true, .timeout = milliseconds(60)}});
  Graph graph;
  auto building = graph.as_default();
  Tensor soft, never;
  {
    auto on = device("/job:ps/task:0/device:GPU:3");
    soft = neg(constant(1.f));
  }
  {
    auto on = device("/job:ps/task:0");
    never = FifoQueue({.components = {{kFloat32}}, .name = "never"}).dequeue()[0];
  }
  Session session(cluster.target()), other(cluster.target(), {.timeout = milliseconds(90)});
  EXPECT_EQ(session.run(soft).to<float>(), -1);
  EXPECT_ERROR(Code::DeadlineExceeded, "longer than 60 ms", session.run(never));
  EXPECT_ERROR(Code::DeadlineExceeded, "longer than 90 ms", other.run(never));
  EXPECT_ERROR(Code::DeadlineExceeded, "longer than 75 ms",
               other.run(never, {}, {.timeout = milliseconds(75)}));
}

TEST(InGraph, AServersFiltersHoldUnlessTheSessionHasItsOwn) {
  test::LocalCluster cluster(1, 2, {.session = {.device_filters = {"/job:ps"}}});
  Graph graph;
  auto building = graph.as_default();
  auto on = device("/job:worker/task:1");
  const Tensor elsewhere = neg(constant(1.f));
  Session session(cluster.target()), wider(cluster.target(), {.device_filters = {"/job:worker"}});
  EXPECT_ERROR(Code::InvalidArgument, "/job:worker/task:1", session.run(elsewhere));
  EXPECT_EQ(wider.run(elsewhere).to<float>(), -1);
}

TEST(InGraph, AnUnfedPlaceholderIsNamed) {
  test::LocalCluster cluster(1, 1);
  Linear model;
  Session session(cluster.target());
  EXPECT_ERROR(Code::InvalidArgument, "placeholder 'Placeholder'", session.run(model.y));
}

TEST(InGraph, ADeviceThatNoTaskHasIsNamed) {
  test::LocalCluster cluster(1, 1);
  Graph graph;
  auto building = graph.as_default();
  Tensor x;
  {
    auto on = device("/job:worker/task:7");
    x = constant(1.f);
  }
  Session session(cluster.target());
  EXPECT_ERROR(Code::InvalidArgument, "/job:worker/task:7", session.run(x));
  EXPECT_ERROR(Code::InvalidArgument, "/job:ps/replica:0/task:0/device:CPU:0", session.run(x));
}

TEST(InGraph, WithoutATargetTheErrorSaysThatOneIsMissing) {
  Linear model;
  Session session;
  for (const char* part :
       {"'w'", "/job:ps/task:0", "/job:localhost/replica:0/task:0/device:CPU:0", "grpc://"}) {
    EXPECT_ERROR(Code::InvalidArgument, part, session.run(model.initialize));
  }
}

TEST(InGraph, AnUnconstrainedOpRunsOnTheMastersTask) {
  test::LocalCluster cluster(1, 2);
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, {});
  const Tensor y = neg(x);
  Session session(cluster.target("worker", 1));
  RunMetadata metadata;
  session.run(y, {{x, Tensor(1.f)}}, {.trace = true}, &metadata);
  ASSERT_EQ(metadata.nodes.size(), 1u);
  EXPECT_EQ(metadata.nodes[0].device, "/job:worker/replica:0/task:1/device:CPU:0");
  EXPECT_EQ(metadata.nodes[0].op, "Neg");
}

TEST(InGraph, AnUnusedTaskNeedNotExist) {
  test::LocalCluster cluster(1, 2);
  cluster.stop("worker", 1);
  Linear model;
  Tensor elsewhere;
  {
    auto on = device("/job:worker/task:1");
    elsewhere = neg(constant(1.f));
  }
  Session session(cluster.target());
  session.run(model.initialize);
  EXPECT_EQ(session.run(model.y, {{model.x, Tensor({{1.f, 1.f}})}}).size(), 4);
  EXPECT_ERROR(Code::Unavailable, "/job:worker/replica:0/task:1",
               session.run(elsewhere, {}, {.timeout = std::chrono::milliseconds(200)}));
}

// Layers of one model on two tasks, their variables on two others, trained.
TEST(InGraph, AModelIsTrainedInLayersOnDifferentTasks) {
  test::LocalCluster cluster(2, 2);
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, {-1, 2});
  const Tensor label = placeholder(kFloat32, {-1, 1});
  const Variable w1 = variable_on("/job:ps/task:0", "w1", {2, 8});
  const Variable w2 = variable_on("/job:ps/task:1", "w2", {8, 1});
  Tensor hidden, loss, train;
  {
    auto on = device("/job:worker/task:0");
    hidden = tanh(matmul(x, w1));
  }
  {
    auto on = device("/job:worker/task:1");
    const Tensor error = matmul(hidden, w2) - label;
    loss = mean(error * error);
    train = optim::Sgd({.learning_rate = 0.1}).minimize(loss, {w1, w2});
  }
  Session session(cluster.target("worker", 1));
  session.run(global_variables_initializer());
  const Feeds feeds{{x, Tensor({{0.f, 1.f}, {1.f, 0.f}, {1.f, 1.f}, {-1.f, 1.f}})},
                    {label, Tensor({{1.f}, {1.f}, {2.f}, {0.f}})}};
  const float before = session.run(loss, feeds).to<float>();
  for (int i = 0; i < 200; ++i) session.run(train, feeds);
  EXPECT_LT(session.run(loss, feeds).to<float>(), 0.05f * before);
}

// Two towers on two workers; their gradients are averaged in the graph.
TEST(InGraph, TowersOfTwoWorkersTrainOneModel) {
  test::LocalCluster cluster(1, 2);
  Graph graph;
  auto building = graph.as_default();
  const Variable w = variable_on("/job:ps/task:0", "w", {1, 1});
  std::vector<Tensor> inputs, losses;
  for (int i = 0; i < 2; ++i) {
    auto on = device("/job:worker/task:" + std::to_string(i));
    inputs.push_back(placeholder(kFloat32, {-1, 1}));
    const Tensor error = matmul(inputs.back(), w) - inputs.back() * 3.f;
    losses.push_back(mean(error * error));
  }
  const Tensor train =
      optim::Sgd({.learning_rate = 0.1}).minimize((losses[0] + losses[1]) * 0.5f, {w});
  Session session(cluster.target());
  session.run(global_variables_initializer());
  for (int i = 0; i < 100; ++i) {
    session.run(train, {{inputs[0], Tensor({{1.f}})}, {inputs[1], Tensor({{2.f}})}});
  }
  EXPECT_NEAR(session.run(w).to_vector<float>()[0], 3.f, 1e-3);
}

uint64_t bytes_received(Server& server) {
  uint64_t bytes = 0;
  for (const ServerStatus::Peer& peer : server.status().peers) bytes += peer.bytes_received;
  return bytes;
}

TEST(InGraph, GroupedValuesStayWhereTheyAre) {
  test::LocalCluster cluster(1, 1);
  Graph graph;
  auto building = graph.as_default();
  constexpr int kVariables = 10;
  constexpr int64_t kElements = 10'000;
  std::vector<Tensor> updates;
  for (int i = 0; i < kVariables; ++i) {
    Variable v = variable_on("/job:ps/task:0", ("v" + std::to_string(i)).c_str(), {kElements});
    updates.push_back(v.assign_add(ones({kElements})));
  }
  Tensor all;
  {
    auto on = device("/job:worker/task:0");
    all = group(updates);
  }
  Session session(cluster.target());
  session.run(global_variables_initializer());
  session.run(all);
  const uint64_t before = bytes_received(cluster.server("worker", 0));
  session.run(all);
  // One word says that all of them have run.
  EXPECT_LT(bytes_received(cluster.server("worker", 0)) - before, 200u);
}

TEST(InGraph, AGroupWaitsForAllOfItsParts) {
  test::LocalCluster cluster(2, 1);
  Graph graph;
  auto building = graph.as_default();
  std::vector<Tensor> updates;
  Tensor sum = constant({0.f, 0.f});
  for (int i = 0; i < 6; ++i) {
    const std::string place = "/job:ps/task:" + std::to_string(i % 2);
    Variable v = variable_on(place.c_str(), ("v" + std::to_string(i)).c_str(), {2});
    sum = sum + v.read_value();
    updates.push_back(v.assign_add(ones({2})));
  }
  const Tensor fed = placeholder(kFloat32, {});
  updates.push_back(fed);
  Tensor after;
  {
    auto on = device("/job:worker/task:0");
    after = group(updates);
  }
  Session session(cluster.target());
  session.run(global_variables_initializer());
  const float before = session.run(sum).to_vector<float>()[0];
  for (int i = 0; i < 5; ++i) session.run(after, {{fed, Tensor(1.f)}});
  EXPECT_NEAR(session.run(sum).to_vector<float>()[0], before + 30, 1e-3);
}

}  // namespace
}  // namespace cohort
