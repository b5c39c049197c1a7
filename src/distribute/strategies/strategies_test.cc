#include <gtest/gtest.h>

#include <sstream>

#include "cohort/cohort.h"
#include "support/expect_error.h"

namespace cohort {
namespace {

std::string full(const std::string& local) {
  return "/job:localhost/replica:0/task:0/device:" + local;
}

std::vector<std::string> devices_of(const std::vector<std::string>& names) {
  return MirroredStrategy(names).extended().worker_devices();
}

TEST(MirroredDevices, AreCanonical) {
  const std::vector<std::string> both{full("CPU:0"), full("CPU:1")};
  EXPECT_EQ(devices_of({"CPU:0", "CPU:1"}), both);
  EXPECT_EQ(devices_of({"/cpu:0", "/device:CPU:1"}), both);
  EXPECT_EQ(devices_of({"/job:localhost/device:cpu:0", "/replica:0/task:0/cpu:1"}), both);
  EXPECT_EQ(devices_of({"cpu:1", "cpu:0"}), (std::vector<std::string>{both[1], both[0]}));
}

TEST(MirroredDevices, AreAllThereAreByDefault) {
  EXPECT_EQ(devices_of({}), std::vector<std::string>{full("CPU:0")});
  EXPECT_EQ(MirroredStrategy().num_replicas_in_sync(), 1);
}

TEST(MirroredDevices, AreRefusedWhenTheyMakeNoSense) {
  EXPECT_ERROR(Code::InvalidArgument, "given twice", devices_of({"CPU:0", "/device:CPU:0"}));
  EXPECT_ERROR(Code::InvalidArgument, "mixes devices",
               devices_of({"CPU:0", "/job:w/task:0/cpu:0"}));
  EXPECT_ERROR(Code::InvalidArgument, "no task", devices_of({"/job:w/cpu:0"}));
  EXPECT_ERROR(Code::FailedPrecondition, "different tasks",
               devices_of({"/job:w/task:0/cpu:0", "/job:w/task:1/cpu:0"}));
  EXPECT_ERROR(Code::InvalidArgument, "at most", devices_of({"CPU:123456789"}));
}

TEST(MirroredDevices, ThatAreMissingAreNamedAsTheyWereWritten) {
  const std::string missing = "[MirroredStrategy] this process has no device ";
  EXPECT_ERROR(Code::InvalidArgument, missing + "'nonsense'; it has /job",
               devices_of({"nonsense"}));
  EXPECT_ERROR(Code::InvalidArgument, missing + "'CPU0' (did you mean 'CPU:0'?); it has /job",
               devices_of({"CPU0", "CPU1"}));
  EXPECT_ERROR(Code::InvalidArgument, missing + "'cpu1' (did you mean 'CPU:1'?)",
               devices_of({"CPU:0", "cpu1"}));
  EXPECT_ERROR(Code::InvalidArgument, missing + "'cuda:3' (did you mean 'GPU:3'?)",
               devices_of({"cuda:3"}));
  EXPECT_ERROR(Code::InvalidArgument, missing + "'GPU:0'; it has /job", devices_of({"GPU:0"}));
  EXPECT_ERROR(Code::InvalidArgument, "with simulated GPUs, set COHORT_SIMULATED_GPUS=1",
               devices_of({"GPU:0"}));
  EXPECT_ERROR(Code::InvalidArgument, "; CPU:N is made by a strategy that names it",
               devices_of({"CPU0"}));
  EXPECT_ERROR(Code::InvalidArgument, "[CentralStorageStrategy] this process has no device 'CPU2'",
               CentralStorageStrategy({.compute_devices = {"CPU:0"}, .parameter_device = "CPU2"}));
  const DeviceScope there("/job:w/task:3");
  EXPECT_ERROR(Code::InvalidArgument, "'cpu:0', here '/job:w/replica:0/task:3/device:CPU:0'; it",
               devices_of({"cpu:0"}));
}

TEST(Mirrored, PutsVariablesAndReplicasOnItsDevices) {
  MirroredStrategy strategy({"CPU:1", "CPU:0"});
  const StrategyExtended& extended = strategy.extended();
  EXPECT_EQ(extended.worker_devices(), extended.parameter_devices());
  EXPECT_EQ(strategy.num_replicas_in_sync(), 2);
  EXPECT_TRUE(extended.should_checkpoint());
  EXPECT_TRUE(extended.should_save_summary());
  EXPECT_TRUE(extended.should_init());
  EXPECT_FALSE(extended.between_graph());
  const auto on = strategy.run([] { return Tensor({1.f}).device(); });
  EXPECT_EQ(on[0], full("CPU:1"));
}

TEST(CentralStorage, KeepsOneCopyOnTheParameterDevice) {
  CentralStorageStrategy several({.compute_devices = {"CPU:0", "CPU:1"}});
  EXPECT_EQ(several.extended().parameter_devices(), std::vector<std::string>{full("CPU:0")});
  EXPECT_EQ(several.num_replicas_in_sync(), 2);
  CentralStorageStrategy single({.compute_devices = {"CPU:1"}});
  EXPECT_EQ(single.extended().parameter_devices(), std::vector<std::string>{full("CPU:1")});
  CentralStorageStrategy chosen(
      {.compute_devices = {"CPU:0", "CPU:1"}, .parameter_device = "CPU:2"});
  EXPECT_EQ(chosen.create([] { return Variable(1.f); }).device(), full("CPU:2"));
  EXPECT_EQ(CentralStorageStrategy().num_replicas_in_sync(), 1);
}

TEST(OneDevice, PutsEverythingThere) {
  OneDeviceStrategy strategy("/cpu:1");
  const auto scope = strategy.scope();
  EXPECT_EQ(Variable(1.f).device(), full("CPU:1"));
  EXPECT_EQ(Tensor({1.f}).device(), full("CPU:1"));
  EXPECT_EQ(strategy.extended().worker_devices(), std::vector<std::string>{full("CPU:1")});
  OneDeviceStrategy other("CPU:0");
  const Variable stranger =
      get_strategy().extended().strategy().create([] { return Variable(1.f); });
  EXPECT_NO_THROW(strategy.extended().colocate_vars_with(stranger));
}

TEST(Strategies, ColocateOnlyWithTheirOwnVariables) {
  const Variable stranger(1.f);
  OneDeviceStrategy strategy("CPU:0");
  const auto scope = strategy.scope();
  EXPECT_ERROR(Code::InvalidArgument, "not made in the scope",
               strategy.extended().colocate_vars_with(stranger));
}

TEST(Strategies, RefuseVariablesThatHoldNothing) {
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const auto scope = strategy.scope();
  StrategyExtended& extended = strategy.extended();
  const Variable v(1.f);
  EXPECT_EQ(extended.non_slot_devices({v}), extended.parameter_devices());
  EXPECT_ERROR(Code::FailedPrecondition, "holds nothing", extended.non_slot_devices({Variable()}));
  EXPECT_ERROR(Code::FailedPrecondition, "holds nothing",
               extended.non_slot_devices({v, Variable()}));
  EXPECT_ERROR(Code::FailedPrecondition, "holds nothing", extended.colocate_vars_with(Variable()));
}

TEST(Strategies, HaveOneLogicalDevicePerReplica) {
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const Tensor value = zeros({4, 6});
  EXPECT_TRUE(internal::same_tensor(strategy.assign_to_logical_device(value, 0), value));
  EXPECT_TRUE(internal::same_tensor(strategy.split_to_logical_devices(value, {1, 1}), value));
  EXPECT_TRUE(internal::same_tensor(strategy.replicate_to_logical_devices(value), value));
  for (const int device : {-1, 1}) {
    EXPECT_ERROR(Code::InvalidArgument, "MirroredStrategy has one logical device",
                 strategy.assign_to_logical_device(value, device));
  }
  EXPECT_ERROR(Code::InvalidArgument, "for each dimension, got 1",
               strategy.split_to_logical_devices(value, {1}));
  EXPECT_ERROR(Code::InvalidArgument, "dimension 1 of shape (4, 6) cannot be cut into 4",
               strategy.split_to_logical_devices(value, {1, 4}));
  EXPECT_ERROR(Code::InvalidArgument, "cannot be cut into 0",
               strategy.split_to_logical_devices(value, {0, 1}));
  EXPECT_ERROR(Code::InvalidArgument, "parts [2, 1] are for several",
               strategy.split_to_logical_devices(value, {2, 1}));
}

TEST(Strategies, OfOneProcessHaveNoClusterResolver) {
  EXPECT_EQ(MirroredStrategy({"CPU:0"}).cluster_resolver(), nullptr);
  EXPECT_EQ(OneDeviceStrategy("CPU:0").cluster_resolver(), nullptr);
  EXPECT_EQ(get_strategy().cluster_resolver(), nullptr);
}

TEST(Strategies, PrintAsOneLine) {
  std::ostringstream out;
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  out << strategy << '\n' << get_strategy() << '\n' << *get_replica_context();
  EXPECT_EQ(out.str(), "MirroredStrategy(devices=['" + full("CPU:0") + "', '" + full("CPU:1") +
                           "'], num_replicas_in_sync=2)\n"
                           "DefaultStrategy()\n"
                           "ReplicaContext(strategy=DefaultStrategy, replica_id_in_sync_group=0, "
                           "num_replicas_in_sync=1)");
}

TEST(Strategies, AreCopiedDeeply) {
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const std::unique_ptr<Strategy> copy = strategy.deep_copy();
  EXPECT_EQ(&copy->extended().strategy(), copy.get());
  EXPECT_EQ(copy->extended().worker_devices(), strategy.extended().worker_devices());
  EXPECT_EQ(copy->run([] { return 3; }).value(), 3);
  const auto scope = strategy.scope();
  EXPECT_ERROR(Code::FailedPrecondition, "do not mix", copy->run([] {}));
}

}  // namespace
}  // namespace cohort
