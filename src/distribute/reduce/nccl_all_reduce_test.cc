// When NCCL is asked, and what happens without it.

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <string>

#include "base/log.h"
#include "support/expect_error.h"
#include "support/spread_values.h"

namespace cohort {
namespace {

using test::cpu;
using test::expect_mirrored;
using test::HostNccl;
using test::numbered;
using test::serial_sum;
using test::spread;
using test::use_stand_in;

// What the stand-in has counted.
int stand_in(const char* counter) {
  void* handle = dlopen(COHORT_NCCL_STAND_IN, RTLD_NOW | RTLD_NOLOAD);
  return handle == nullptr ? 0 : reinterpret_cast<int (*)()>(dlsym(handle, counter))();
}

class Nccl : public ::testing::Test {
 protected:
  void SetUp() override { use_stand_in(); }
  void TearDown() override { unsetenv("COHORT_NCCL_LIBRARY"); }
};

TEST_F(Nccl, IsAskedOncePerPackAndDevice) {
  const DistributedValue value = numbered(3, {100});
  const std::vector<ReduceRequest> requests{{value, value}, {value, value}};
  for (const auto& [packs, calls] : {std::pair{1, 1}, {4, 4}, {0, 2}}) {
    const int before = stand_in("stand_in_all_reduces");
    HostNccl(packs).batch_reduce(ReduceOp::Sum, requests);
    EXPECT_EQ(stand_in("stand_in_all_reduces") - before, 3 * calls) << packs << " packs";
  }
}

TEST_F(Nccl, IsNotAskedForWhatItCannotDo) {
  const int before = stand_in("stand_in_all_reduces");
  const DistributedValue value = numbered(2, {10});
  expect_mirrored(HostNccl().reduce(ReduceOp::Sum, value, "CPU:0"), serial_sum(value), {cpu(0)});
  const DistributedValue shorts = numbered(2, {10}, kInt16);
  expect_mirrored(HostNccl().reduce(ReduceOp::Sum, shorts, shorts), serial_sum(shorts),
                  shorts.devices());
  expect_mirrored(NcclAllReduce().reduce(ReduceOp::Sum, value, value), serial_sum(value),
                  value.devices());
  EXPECT_EQ(stand_in("stand_in_all_reduces"), before);
}

TEST_F(Nccl, SaysOnceThatItIsNotAsked) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";  // a process that has said nothing yet
  EXPECT_EXIT(
      {
        ::testing::internal::CaptureStderr();
        const DistributedValue value = numbered(2, {10});
        for (int i = 0; i < 3; ++i) NcclAllReduce().reduce(ReduceOp::Sum, value, value);
        std::istringstream log(::testing::internal::GetCapturedStderr());
        int lines = 0;
        for (std::string line; std::getline(log, line);) lines += line.find("[Nccl]") != line.npos;
        _exit(lines);
      },
      testing::ExitedWithCode(1), "");
}

TEST_F(Nccl, CommunicatorsEndWithTheAlgorithm) {
  const DistributedValue value = numbered(3, {10});
  {
    HostNccl ops;
    ops.reduce(ReduceOp::Sum, value, value);
    ops.reduce(ReduceOp::Sum, value, value);
    EXPECT_EQ(stand_in("stand_in_live_comms"), 3);
  }
  EXPECT_EQ(stand_in("stand_in_live_comms"), 0);
}

TEST_F(Nccl, FailuresAreErrorsWithItsText) {
  const Tensor unknown = cast(Tensor({1}), kFloat16);  // to the stand-in
  const DistributedValue value = spread({unknown, unknown});
  EXPECT_ERROR(Code::Internal, "invalid argument", HostNccl().reduce(ReduceOp::Sum, value, value));
}

TEST_F(Nccl, IsSaidToBeMissingOnceAndReplaced) {
  setenv("COHORT_NCCL_LIBRARY", "/nowhere/libnccl.so.2", 1);
  const DistributedValue value = numbered(2, {10});
  testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) {
    expect_mirrored(HostNccl().reduce(ReduceOp::Sum, value, value), serial_sum(value),
                    value.devices());
  }
  const std::string log = testing::internal::GetCapturedStderr();
  const size_t said = log.find("/nowhere/libnccl.so.2 cannot be used");
  ASSERT_NE(said, std::string::npos) << log;
  EXPECT_EQ(log.find("cannot be used", said + 30), std::string::npos) << log;
}

TEST_F(Nccl, RefusesALibraryThatIsNotNccl) {
  setenv("COHORT_NCCL_LIBRARY", "libc.so.6", 1);
  const DistributedValue value = numbered(2, {10});
  testing::internal::CaptureStderr();
  expect_mirrored(HostNccl().reduce(ReduceOp::Sum, value, value), serial_sum(value),
                  value.devices());
  EXPECT_NE(testing::internal::GetCapturedStderr().find("ncclGetVersion"), std::string::npos);
}

TEST(DefaultCrossDeviceOps, DependOnTheDevices) {
  use_stand_in();
  const auto chosen = [](std::vector<std::string> devices) {
    return default_cross_device_ops(devices)->to_string();
  };
  EXPECT_EQ(chosen({"CPU:0", "CPU:1"}), "DirectAllReduce()");
  EXPECT_EQ(chosen({"CPU:0"}), "DirectAllReduce()");
  EXPECT_EQ(chosen({"CPU:0", "GPU:0"}), "ReductionToOneDevice(first destination)");
  EXPECT_EQ(chosen({"GPU:0", "GPU:1"}), "NcclAllReduce(num_packs=1)");
  setenv("COHORT_NCCL_LIBRARY", "/nowhere/else", 1);
  EXPECT_EQ(chosen({"GPU:0", "GPU:1"}), "ReductionToOneDevice(first destination)");
  unsetenv("COHORT_NCCL_LIBRARY");
}

TEST(DefaultCrossDeviceOps, AreExplainedInOneLine) {
  internal::set_log_level(internal::LogLevel::Info);
  testing::internal::CaptureStderr();
  default_cross_device_ops(std::vector<std::string>{"CPU:0", "CPU:1"});
  const std::string log = testing::internal::GetCapturedStderr();
  internal::set_log_level(internal::LogLevel::Warning);
  EXPECT_NE(log.find("using DirectAllReduce() between 2 devices, because all devices are CPUs"),
            std::string::npos)
      << log;
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1);
}

}  // namespace
}  // namespace cohort
