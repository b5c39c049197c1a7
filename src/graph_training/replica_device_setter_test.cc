#include "cohort/replica_device_setter.h"

#include <gtest/gtest.h>

#include "cohort/cohort.h"
#include "cohort/graph_training.h"
#include "graph/placer.h"
#include "support/expect_error.h"

namespace cohort {
namespace {

const ClusterSpec kCluster({{"ps", {"ps0:1", "ps1:1"}}, {"worker", {"w0:1", "w1:1", "w2:1"}}});

DeviceRequest variable(std::string device = "") { return {"v", "VariableHandle", device}; }
DeviceRequest node(std::string device = "") { return {"n", "MatMul", device}; }

TEST(ReplicaDeviceSetter, PutsParametersOnThePsInTurnAndTheRestOnTheWorker) {
  const DeviceFunction setter = replica_device_setter({.ps_tasks = 2});
  EXPECT_EQ(setter(variable()), "/job:ps/task:0");
  EXPECT_EQ(setter(node()), "/job:worker");
  EXPECT_EQ(setter(variable()), "/job:ps/task:1");
  EXPECT_EQ(setter(variable()), "/job:ps/task:0");
}

TEST(ReplicaDeviceSetter, CountsThePsTasksOfACluster) {
  const DeviceFunction setter =
      replica_device_setter(kCluster, {.worker_device = "/job:worker/task:2"});
  EXPECT_EQ(setter(variable()), "/job:ps/task:0");
  EXPECT_EQ(setter(variable()), "/job:ps/task:1");
  EXPECT_EQ(setter(variable()), "/job:ps/task:0");
  EXPECT_EQ(setter(node()), "/job:worker/task:2");
}

TEST(ReplicaDeviceSetter, UsesTheIndicesOfASparseJob) {
  const DeviceFunction setter =
      replica_device_setter(ClusterSpec({{"ps", {{3, "a:1"}, {7, "b:1"}}}, {"worker", {"c:1"}}}));
  EXPECT_EQ(setter(variable()), "/job:ps/task:3");
  EXPECT_EQ(setter(variable()), "/job:ps/task:7");
}

TEST(ReplicaDeviceSetter, ChangesNothingWithoutPsTasks) {
  for (const DeviceFunction& setter :
       {replica_device_setter({.ps_tasks = 0}), replica_device_setter(ClusterSpec()),
        replica_device_setter(ClusterSpec({{"worker", {"w0:1"}}})),
        replica_device_setter(kCluster, {.ps_device = ""})}) {
    EXPECT_EQ(setter(variable()), "");
    EXPECT_EQ(setter(node("/cpu:0")), "/cpu:0");
  }
}

TEST(ReplicaDeviceSetter, LetsScopesInsideOfItWin) {
  const DeviceFunction setter = replica_device_setter(
      {.ps_tasks = 2, .ps_device = "/job:ps/cpu:0", .worker_device = "/job:worker/task:1/cpu:0"});
  EXPECT_EQ(setter(variable("/gpu:1")), "/job:ps/task:0/device:GPU:1");
  EXPECT_EQ(setter(variable("/task:9")), "/job:ps/task:9/device:CPU:0");  // consumed a turn
  EXPECT_EQ(setter(variable("/job:ps")), "/job:ps/task:0/device:CPU:0");
  EXPECT_EQ(setter(node("/task:2/gpu:0")), "/job:worker/task:2/device:GPU:0");
}

TEST(ReplicaDeviceSetter, AsksTheStrategyOnlyForItsOwnJob) {
  const DeviceFunction setter = replica_device_setter({.ps_tasks = 2});
  EXPECT_EQ(setter(variable("/job:other")), "/job:other");
  EXPECT_EQ(setter(variable()), "/job:ps/task:0");
  const DeviceFunction nameless = replica_device_setter({.ps_tasks = 2, .ps_device = "/cpu:0"});
  EXPECT_EQ(nameless(variable()), "/device:CPU:0");
}

TEST(ReplicaDeviceSetter, LeavesPlacedNodesAloneWithoutMerging) {
  const DeviceFunction setter = replica_device_setter({.ps_tasks = 2, .merge_devices = false});
  EXPECT_EQ(setter(variable("/gpu:0")), "/gpu:0");
  EXPECT_EQ(setter(node("/gpu:0")), "/gpu:0");
  EXPECT_EQ(setter(variable()), "/job:ps/task:0");  // no turn was consumed
  EXPECT_EQ(setter(node()), "/job:worker");
}

TEST(ReplicaDeviceSetter, TakesOtherOpsForParameters) {
  const DeviceFunction setter = replica_device_setter({.ps_tasks = 1, .parameter_ops = {"Table"}});
  EXPECT_EQ(setter(variable()), "/job:worker");
  EXPECT_EQ(setter({"t", "Table", ""}), "/job:ps/task:0");
}

TEST(ReplicaDeviceSetter, RefusesWhatMakesNoSense) {
  EXPECT_ERROR(Code::InvalidArgument, "/job:1", replica_device_setter({.ps_device = "/job:1"}));
  EXPECT_ERROR(Code::InvalidArgument, "nonsense",
               replica_device_setter({.worker_device = "nonsense"}));
  EXPECT_ERROR(Code::InvalidArgument, "got -1", replica_device_setter({.ps_tasks = -1}));
  EXPECT_ERROR(Code::InvalidArgument, "at least 1 ps task", RoundRobinStrategy(0));
  EXPECT_ERROR(Code::InvalidArgument, "at least 1 ps task", GreedyLoadBalancingStrategy(0));
  EXPECT_ERROR(Code::InvalidArgument, "load function is empty",
               GreedyLoadBalancingStrategy(1, nullptr));
  const DeviceFunction setter =
      replica_device_setter({.ps_tasks = 2, .strategy = [](const ParameterRequest&) { return 2; }});
  EXPECT_ERROR(Code::InvalidArgument, "put 'v' on ps task 2, but there are 2", setter(variable()));
}

// The worked example: a model over 2 ps and 3 workers.
std::vector<std::string> devices_of_model(const DeviceFunction& setter) {
  Graph graph;
  const auto building = graph.as_default();
  const auto on = device(setter);
  std::vector<std::string> devices{global_step().device()};
  const auto add = [&](std::string_view name, const Shape& shape) {
    devices.push_back(get_variable(name, {.shape = shape}).device());
  };
  add("emb", {1000, 64});
  add("w1", {64, 32});
  add("b1", {32});
  add("w2", {32, 10});
  return devices;
}

TEST(ReplicaDeviceSetter, GoesRoundForTheWorkedExample) {
  EXPECT_EQ(devices_of_model(replica_device_setter(kCluster)),
            (std::vector<std::string>{"/job:ps/task:0", "/job:ps/task:1", "/job:ps/task:0",
                                      "/job:ps/task:1", "/job:ps/task:0"}));
}

TEST(ReplicaDeviceSetter, BalancesBytesForTheWorkedExample) {
  const GreedyLoadBalancingStrategy greedy(2);
  EXPECT_EQ(devices_of_model(replica_device_setter(kCluster, {.strategy = greedy})),
            (std::vector<std::string>{"/job:ps/task:0", "/job:ps/task:1", "/job:ps/task:0",
                                      "/job:ps/task:0", "/job:ps/task:0"}));
  EXPECT_EQ(greedy.loads(), (std::vector<double>{9608, 256000}));
}

TEST(ReplicaDeviceSetter, KnowsTheBytesOfVariablesHoweverTheyAreMade) {
  const GreedyLoadBalancingStrategy greedy(1);
  Graph graph;
  const auto building = graph.as_default();
  const auto on = device(replica_device_setter({.ps_tasks = 1, .strategy = greedy}));
  const Variable constant({1.f, 2.f, 3.f});
  EXPECT_EQ(greedy.loads()[0], 12);
  nn::Dense(4, 5);
  EXPECT_EQ(greedy.loads()[0], 12 + 80 + 20);
  EXPECT_ERROR(Code::InvalidArgument, "the bytes of 'late' must be known",
               Variable([] { return ones({2}); }, {.name = "late"}));
}

TEST(ReplicaDeviceSetter, TakesALoadFunction) {
  const GreedyLoadBalancingStrategy greedy(2, [](const ParameterRequest&) { return 1.0; });
  const DeviceFunction setter = replica_device_setter({.ps_tasks = 2, .strategy = greedy});
  EXPECT_EQ(setter(variable()), "/job:ps/task:0");
  EXPECT_EQ(setter(variable()), "/job:ps/task:1");
  EXPECT_EQ(setter(variable()), "/job:ps/task:0");
}

// Where the nodes of a worker's graph end up on a real cluster.
std::map<std::string, std::string> placed(const Graph& graph, const std::string& home) {
  std::vector<DeviceName> devices;
  for (const char* task : {"/job:ps/replica:0/task:0", "/job:ps/replica:0/task:1",
                           "/job:worker/replica:0/task:0", "/job:worker/replica:0/task:1"}) {
    devices.push_back(DeviceName::parse(std::string(task) + "/device:CPU:0"));
  }
  const auto& impl = *internal::GraphAccess::impl(graph);
  const std::vector<DeviceName> places = internal::place_nodes(
      impl, 0, {}, {.devices = devices, .home = DeviceName::parse(home), .hint = ""});
  std::map<std::string, std::string> tasks;
  for (int id = 0; id < impl.size(); ++id) {
    const DeviceName& place = places[static_cast<size_t>(id)];
    tasks[impl.node(id).name] = *place.job + ":" + std::to_string(*place.task);
  }
  return tasks;
}

TEST(ReplicaDeviceSetter, PlacesATrainingGraphWithItsOptimizer) {
  Graph graph;
  const auto building = graph.as_default();
  Tensor train;
  {
    const auto on =
        device(replica_device_setter({.ps_tasks = 2, .worker_device = "/job:worker/task:1"}));
    const Variable step = global_step();
    const Tensor w = get_variable("w", {.shape = {2, 1}});
    const Tensor loss = mean(square(matmul(placeholder(kFloat32, {-1, 2}, "x"), w)));
    optim::Adam adam;
    SyncReplicasOptimizer optimizer(adam, {.replicas_to_aggregate = 2});
    train = optimizer.minimize(loss, {}, step);
    EXPECT_EQ(optimizer.local_step().device(), "/job:worker/task:1");
  }
  const auto task = placed(graph, "/job:worker/replica:0/task:1/device:CPU:0");
  EXPECT_EQ(task.at("w"), "ps:1");
  EXPECT_EQ(task.at("global_step"), "ps:0");
  const auto expect_all = [&](std::string_view op, const std::string& where) {
    for (const NodeInfo& info : graph.nodes()) {
      if (info.op.find(op) == std::string::npos) continue;
      EXPECT_EQ(task.at(info.name), where) << info.name;
    }
  };
  expect_all("ApplyAdam", "ps:1");
  expect_all("Accumulator", "ps:1");
  expect_all("Queue", "ps:0");
  expect_all("Matmul", "worker:1");
  EXPECT_EQ(task.at("w/mean"), "ps:1");
  EXPECT_EQ(task.at("sync_replicas/local_step"), "worker:1");
  EXPECT_EQ(task.at("sync_replicas/absent"), "ps:0");
}

}  // namespace
}  // namespace cohort
