#include "cohort/simulated_gpus.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "cohort/cohort.h"
#include "simulated/gpus.h"
#include "simulated/running_op.h"
#include "support/expect_error.h"
#include "tensor/aten.h"
#include "tensor/memory.h"

namespace cohort {
namespace {

using internal::aten;

constexpr int64_t kMemory = 64 << 20;
const std::string kGpu0 = "/job:localhost/replica:0/task:0/device:GPU:0";
const std::string kGpu1 = "/job:localhost/replica:0/task:0/device:GPU:1";

class SimulatedGpus : public ::testing::Test {
 protected:
  SimulatedGpus() { make_simulated_gpus(2, kMemory); }
};

at::Device gpu(int index) { return {at::DeviceType::PrivateUse1, static_cast<int8_t>(index)}; }

Tensor many_numbers() {
  std::vector<float> numbers(1000);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
  return Tensor::from(numbers, {10, 100});
}

TEST_F(SimulatedGpus, AreListedAfterTheCpus) {
  make_cpu_devices(2);
  const std::vector<std::string> devices = list_devices();
  const auto first = std::ranges::find(devices, kGpu0);
  ASSERT_NE(first, devices.end());
  EXPECT_EQ(*(first + 1), kGpu1);
  EXPECT_LT(std::ranges::find(devices, "/job:localhost/replica:0/task:0/device:CPU:1"), first);
}

TEST_F(SimulatedGpus, MakingCpusLaterDoesNotRenumberThem) {
  make_cpu_devices(5);
  make_simulated_gpus(1, kMemory);
  EXPECT_EQ(internal::find_device("GPU:1").place.gpu, 1);
  EXPECT_TRUE(internal::find_device("CPU:4").place.is_host());
}

TEST_F(SimulatedGpus, HoldWhatIsMadeInTheirScope) {
  const DeviceScope on("GPU:1");
  const Tensor made = many_numbers();
  EXPECT_EQ(made.device(), kGpu1);
  EXPECT_EQ(aten(made).device(), gpu(1));
  const Tensor scalar(2.f);
  EXPECT_EQ(scalar.device(), kGpu1);
  EXPECT_EQ(aten(scalar).device(), gpu(1));
}

TEST_F(SimulatedGpus, ATensorIsWhereItsMemoryIs) {
  const DeviceScope on("GPU:1");
  EXPECT_EQ(internal::from_aten(at::ones({3})).device(), canonical_device("CPU:0"));
  EXPECT_EQ(internal::from_aten(at::ones({3}, gpu(0))).device(), kGpu0);
  EXPECT_EQ(internal::from_torch(at::ones({3}, gpu(1))).device(), kGpu1);
}

TEST_F(SimulatedGpus, GiveTheHostTheirElements) {
  Tensor there;
  {
    const DeviceScope on("GPU:0");
    there = many_numbers();
  }
  EXPECT_EQ(there.to_vector<float>(), many_numbers().to_vector<float>());
  EXPECT_EQ(there.data<float>()[999], 999.f);
  EXPECT_EQ(there.to_string(), many_numbers().to_string());
}

TEST_F(SimulatedGpus, StringsStayOnTheHost) {
  const DeviceScope on("GPU:0");
  EXPECT_EQ(Tensor({"a", "b"}).device(), canonical_device("CPU:0"));
}

TEST_F(SimulatedGpus, AreCopiedBetween) {
  const SimulatedGpuStatus before = simulated_gpu_status("GPU:1");
  const Tensor at_first = internal::on_device(many_numbers(), internal::find_device("GPU:0"));
  const Tensor at_second = internal::on_device(at_first, internal::find_device("GPU:1"));
  EXPECT_EQ(at_second.device(), kGpu1);
  EXPECT_EQ(at_second.to_vector<float>(), many_numbers().to_vector<float>());
  const SimulatedGpuStatus after = simulated_gpu_status("GPU:1");
  EXPECT_EQ(after.copies_from_peers - before.copies_from_peers, 1);
  EXPECT_EQ(after.bytes_from_peers - before.bytes_from_peers, 4000);
  EXPECT_EQ(after.copies_to_host - before.copies_to_host, 1);
}

TEST_F(SimulatedGpus, CountCopiesFromPinnedMemory) {
  const at::Tensor pinned = at::ones({100}).pin_memory(gpu(0));
  EXPECT_TRUE(pinned.is_pinned(gpu(0)));
  EXPECT_FALSE(at::ones({100}).is_pinned(gpu(0)));
  const SimulatedGpuStatus before = simulated_gpu_status("GPU:0");
  EXPECT_EQ(pinned.to(gpu(0)).cpu().sum().item<float>(), 100.f);
  const SimulatedGpuStatus after = simulated_gpu_status("GPU:0");
  EXPECT_EQ(after.copies_from_host - before.copies_from_host, 1);
  EXPECT_EQ(after.pinned_copies - before.pinned_copies, 1);
}

TEST_F(SimulatedGpus, GiveMemoryBack) {
  const int64_t before = simulated_gpu_status("GPU:0").memory_in_use;
  {
    const at::Tensor held = at::ones({1 << 20}, gpu(0));
    const SimulatedGpuStatus during = simulated_gpu_status("GPU:0");
    EXPECT_GE(during.memory_in_use - before, 4 << 20);
    EXPECT_GE(during.memory_peak, during.memory_in_use);
    EXPECT_EQ(during.memory_limit, kMemory);
  }
  EXPECT_EQ(simulated_gpu_status("GPU:0").memory_in_use, before);
}

TEST_F(SimulatedGpus, OutOfMemoryNamesOpAndDevice) {
  const DeviceScope on("GPU:1");
  EXPECT_ERROR(Code::ResourceExhausted, "[Zeros] GPU:1 is out of memory", zeros({10'000, 10'000}));
  EXPECT_ERROR(Code::ResourceExhausted, "of its 64.0 MB are in use", zeros({10'000, 10'000}));
  EXPECT_EQ(sum(ones({4, 4})).to<float>(), 16.f);  // goes on
}

TEST_F(SimulatedGpus, AFailedOneNamesOpAndDevice) {
  const DeviceScope on("GPU:1");
  const Tensor x = many_numbers();
  fail_simulated_gpu("GPU:1");
  EXPECT_TRUE(simulated_gpu_status("GPU:1").has_failed);
  EXPECT_ERROR(Code::DataLoss, "[Add] GPU:1 has failed", x + x);
  EXPECT_ERROR(Code::DataLoss, "GPU:1 has failed", x.to_vector<float>());
  restore_simulated_gpu("GPU:1");
  EXPECT_EQ(x.to_vector<float>()[5], 5.f);
}

TEST_F(SimulatedGpus, AHostAccessEndsTheProcessAndNamesTheOp) {
  const at::Tensor there = at::ones({1000}, gpu(1));
  const volatile float* const address = there.data_ptr<float>();
  static constexpr std::string_view kOp = "Gather";
  const internal::RunningOp running(kOp);
  EXPECT_DEATH((void)address[1], "\\[Gather\\] the host read or wrote memory of GPU:1");
}

TEST_F(SimulatedGpus, AMissingOneIsAnErrorThatSaysHowToSimulateIt) {
  EXPECT_ERROR(Code::InvalidArgument, "device:GPU:7'; it has", internal::find_device("GPU:7"));
  EXPECT_ERROR(Code::InvalidArgument, kGpu0, internal::find_device("GPU:7"));
  EXPECT_ERROR(Code::InvalidArgument, "COHORT_SIMULATED_GPUS=8", internal::find_device("GPU:7"));
  EXPECT_ERROR(Code::InvalidArgument, "at most 16 GPUs", internal::find_device("GPU:99"));
  EXPECT_ERROR(Code::InvalidArgument, "is not a simulated GPU", simulated_gpu_status("CPU:0"));
  EXPECT_ERROR(Code::InvalidArgument, "between 0 and 16", make_simulated_gpus(17));
  EXPECT_ERROR(Code::InvalidArgument, "between 1 byte and 32 GB", make_simulated_gpus(3, -1));
}

TEST(SimulatedGpuSettings, SizesHaveUnits) {
  using internal::parse_bytes;
  EXPECT_EQ(parse_bytes("4096", "X"), 4096);
  EXPECT_EQ(parse_bytes("16KB", "X"), 16 << 10);
  EXPECT_EQ(parse_bytes("512MB", "X"), 512 << 20);
  EXPECT_EQ(parse_bytes("2GB", "X"), int64_t{2} << 30);
  for (const char* wrong : {"", "MB", "1.5GB", "-1", "7TB", "99999999999GB"}) {
    EXPECT_ERROR(Code::InvalidArgument, "X must be a size such as 512MB", parse_bytes(wrong, "X"));
  }
}

TEST(SimulatedGpuSettings, ComeFromTheEnvironment) {
  setenv("COHORT_SIMULATED_GPUS", "3", 1);
  setenv("COHORT_SIMULATED_GPU_MEMORY", "1MB", 1);
  const internal::SimulatedGpuRequest asked = internal::requested_gpus();
  EXPECT_EQ(asked.count, 3);
  EXPECT_EQ(asked.memory_bytes, 1 << 20);
  setenv("COHORT_SIMULATED_GPUS", "many", 1);
  EXPECT_ERROR(Code::InvalidArgument, "must be a number from 0 to 16, got 'many'",
               internal::requested_gpus());
  unsetenv("COHORT_SIMULATED_GPUS");
  unsetenv("COHORT_SIMULATED_GPU_MEMORY");
  EXPECT_EQ(internal::requested_gpus().count, 0);
}

// What a torch program does on its own.

TEST_F(SimulatedGpus, RunTorchsFunctions) {
  const at::Tensor x = at::arange(12, at::kFloat).reshape({3, 4});
  const at::Tensor there = x.to(gpu(0));
  EXPECT_TRUE(there.t().matmul(there).cpu().equal(x.t().matmul(x)));
  EXPECT_TRUE(at::cat({there, there}, 1).cpu().equal(at::cat({x, x}, 1)));
  EXPECT_TRUE(there.index({at::tensor({int64_t{2}, int64_t{0}}).to(gpu(0))})
                  .cpu()
                  .equal(x.index({at::tensor({int64_t{2}, int64_t{0}})})));
  EXPECT_EQ(there.t().sum(0).device(), gpu(0));
  at::Tensor view = there.narrow(0, 1, 1);
  view.fill_(7);
  EXPECT_EQ(there.cpu().sum().item<float>(), x.sum().item<float>() - 22 + 28);
  at::Tensor out = at::empty({0}, gpu(0));
  at::add_out(out, there, there);
  EXPECT_EQ(out.sizes(), x.sizes());
}

TEST_F(SimulatedGpus, AnOpOfTorchOnTwoOfThemIsAnError) {
  const at::Tensor a = at::ones({2}, gpu(0));
  const at::Tensor b = at::ones({2}, gpu(1));
  EXPECT_THROW(a + b, c10::Error);
}

}  // namespace
}  // namespace cohort
