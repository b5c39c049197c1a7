#include "tensor/devices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <thread>

#include "cohort/tensor.h"
#include "support/expect_error.h"

namespace cohort {
namespace {

const std::string kCpu0 = "/job:localhost/replica:0/task:0/device:CPU:0";
const std::string kCpu1 = "/job:localhost/replica:0/task:0/device:CPU:1";

TEST(Devices, FirstIsTheCpu) {
  ASSERT_FALSE(list_devices().empty());
  EXPECT_EQ(list_devices()[0], kCpu0);
  EXPECT_EQ(internal::current_device().full_name, kCpu0);
  EXPECT_EQ(Tensor(1.f).device(), kCpu0);
}

TEST(Devices, AreFoundByNamesInAnyForm) {
  const internal::Device& cpu = internal::find_device("CPU:0");
  for (const char* name : {"cpu:0", "/cpu:0", "/device:CPU:0", "/job:localhost/device:CPU:0", ""}) {
    EXPECT_EQ(&internal::find_device(name), &cpu) << name;
  }
}

TEST(Devices, MoreCpusAreMadeOnceAndStay) {
  internal::ensure_cpu_devices(2);
  const internal::Device* first = &internal::find_device("CPU:1");
  const size_t count = list_devices().size();
  internal::ensure_cpu_devices(2);
  internal::ensure_cpu_devices(1);
  EXPECT_EQ(list_devices().size(), count);
  EXPECT_EQ(&internal::find_device("CPU:1"), first);
}

TEST(Devices, ArePublic) {
  make_cpu_devices(3);
  EXPECT_GE(list_devices().size(), 3u);
  EXPECT_EQ(current_device(), "/job:localhost/replica:0/task:0/device:CPU:0");
  const auto on = device("CPU:2");
  EXPECT_EQ(current_device(), "/job:localhost/replica:0/task:0/device:CPU:2");
  EXPECT_ERROR(Code::InvalidArgument, "at least 1, got 0", make_cpu_devices(0));
}

TEST(Devices, UnknownOneIsAnErrorThatListsThem) {
  EXPECT_ERROR(Code::InvalidArgument, "no device '/job:localhost/replica:0/task:0/device:CPU:99'",
               internal::find_device("CPU:99"));
  EXPECT_ERROR(Code::InvalidArgument, "it has " + kCpu0, internal::find_device("CPU:99"));
  EXPECT_ERROR(Code::InvalidArgument, "/job:worker/replica:0/task:1",
               internal::find_device("/job:worker/task:1"));
  EXPECT_ERROR(Code::InvalidArgument, "or by make_cpu_devices()", internal::find_device("CPU:99"));
  EXPECT_ERROR(Code::InvalidArgument, "CPU12:0' (did you mean 'CPU:12'?)",
               internal::find_device("CPU12"));
  EXPECT_ERROR(Code::InvalidArgument, "CUDA:1' (did you mean 'GPU:1'?)",
               internal::find_device("cuda:1"));
}

TEST(DeviceScope, DecidesWhereTensorsGo) {
  internal::ensure_cpu_devices(2);
  {
    const DeviceScope scope("CPU:1");
    EXPECT_EQ(Tensor(1.f).device(), kCpu1);
    EXPECT_EQ(Tensor({"a"}).device(), kCpu1);
  }
  EXPECT_EQ(Tensor(1.f).device(), kCpu0);
}

TEST(DeviceScope, FillsItsMissingPartsFromTheOuter) {
  const auto outer = device("/job:trainer/device:GPU:3");
  {
    const auto inner = device("/task:5");
    EXPECT_EQ(internal::requested_device("node", "Add").to_string(),
              "/job:trainer/task:5/device:GPU:3");
    const auto innermost = device("cpu:0");
    EXPECT_EQ(internal::requested_device("node", "Add").to_string(),
              "/job:trainer/task:5/device:CPU:0");
    const auto nothing = device("");
    EXPECT_EQ(internal::requested_device("node", "Add").to_string(),
              "/job:trainer/task:5/device:CPU:0");
  }
  EXPECT_EQ(internal::requested_device("node", "Add").to_string(), "/job:trainer/device:GPU:3");
}

TEST(DeviceScope, GpuWithoutOneIsAnErrorOfTheFirstOperation) {
  const auto on = device("GPU:0");
  const Tensor value(1.f);  // may become a constant of a graph
  EXPECT_EQ(value.device(), kCpu0);
  EXPECT_EQ(Tensor({"a"}).device(), kCpu0);
  EXPECT_ERROR(Code::InvalidArgument, "device:GPU:0'; it has " + kCpu0, internal::current_device());
}

TEST(DeviceScope, BadNameIsAnErrorAtOnce) {
  EXPECT_ERROR(Code::InvalidArgument, "'gpu-0'", DeviceScope("gpu-0"));
  EXPECT_ERROR(Code::InvalidArgument, "'/job:1'", DeviceScope("/job:1"));
  EXPECT_EQ(internal::requested_device("node", "Add"), DeviceName{});
}

TEST(DeviceScope, BelongsToItsThread) {
  const auto on = device("GPU:0");
  std::string there = "nothing";
  std::thread([&] { there = internal::requested_device("node", "Add").to_string(); }).join();
  EXPECT_EQ(there, "");
}

TEST(DeviceScope, ThatEndsEarlyLeavesThoseInsideIt) {
  auto outer = std::make_unique<DeviceScope>("/job:a");
  auto inner = std::make_unique<DeviceScope>("/task:1");
  outer.reset();  // logged as an error
  EXPECT_EQ(internal::requested_device("node", "Add").to_string(), "/task:1");
  inner.reset();
  EXPECT_EQ(internal::requested_device("node", "Add"), DeviceName{});
}

TEST(DeviceScope, ThatEndsEarlyNoLongerDecidesWhereTensorsGo) {
  internal::ensure_cpu_devices(2);
  auto outer = std::make_unique<DeviceScope>("CPU:1");
  auto inner = std::make_unique<DeviceScope>("/task:0");
  EXPECT_EQ(&internal::current_device(), &internal::find_device("CPU:1"));
  outer.reset();  // logged as an error
  EXPECT_EQ(&internal::current_device(), &internal::find_device("CPU:0"));
}

TEST(DeviceScope, WithAFullNameOverridesAllOfTheOuter) {
  internal::ensure_cpu_devices(2);
  const DeviceScope outer("/job:elsewhere/task:3/GPU:2");
  const internal::Device& second = internal::find_device("CPU:1");
  const DeviceScope inner(second.full_name);
  EXPECT_EQ(&internal::current_device(), &second);
  EXPECT_EQ(internal::requested_device("node", "Add").to_string(), second.full_name);
}

TEST(DeviceGuard, IsAScopeThatOthersNestIn) {
  internal::ensure_cpu_devices(2);
  const internal::Device& second = internal::find_device("CPU:1");
  {
    const internal::DeviceGuard on(second);
    EXPECT_EQ(&internal::current_device(), &second);
    {
      const DeviceScope inner("CPU:0");
      EXPECT_EQ(internal::current_device().name.to_string(),
                internal::find_device("CPU:0").full_name);
    }
    EXPECT_EQ(&internal::value_device(), &second);
    EXPECT_EQ(&internal::current_device(), &second);
  }
  EXPECT_EQ(&internal::current_device(), &internal::find_device("CPU:0"));
  EXPECT_EQ(internal::device_scope_depth(), 0u);
}

}  // namespace
}  // namespace cohort
