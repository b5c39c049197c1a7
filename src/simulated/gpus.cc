#include "simulated/gpus.h"

#include <array>
#include <charconv>
#include <cstdlib>
#include <memory>

#include "base/raise.h"
#include "base/text.h"
#include "simulated/registration.h"
#include "simulated/running_op.h"

namespace cohort::internal {
namespace {

struct GpuTable {
  Mutex making;
  std::array<std::unique_ptr<SimulatedGpu>, kMaxSimulatedGpus> gpus;  // the first `count`
  std::atomic<int> count = 0;
};

// Never destroyed: tensors may live until the process ends.
GpuTable& gpu_table() {
  static auto& table = *new GpuTable;
  return table;
}

bool register_device() {
  // Never destroyed, because that would take the kernels away from tensors that still live.
  static auto& aten =
      *new torch::Library(torch::Library::IMPL, "aten", kSimulatedKey, __FILE__, __LINE__);
  static auto& all =
      *new torch::Library(torch::Library::IMPL, "_", kSimulatedKey, __FILE__, __LINE__);
  register_guard();
  register_tensors(aten);
  register_host_kernels(aten, all);
  register_hooks();
  watch_host_access();
  return true;
}

}  // namespace

void SimulatedGpu::require_alive() const {
  if (!has_failed.load(std::memory_order_relaxed)) return;
  raise(Code::DataLoss,
        "[{}] {} has failed (simulated); continue from a checkpoint on the devices that are left",
        RunningOp::name(), name);
}

int simulated_gpu_count() { return gpu_table().count.load(std::memory_order_acquire); }

SimulatedGpu& simulated_gpu(int index) { return *gpu_table().gpus.at(static_cast<size_t>(index)); }

SimulatedGpu* gpu_of_address(const void* address) {
  GpuTable& table = gpu_table();
  const int count = simulated_gpu_count();
  for (int i = 0; i < count; ++i) {
    SimulatedGpu& gpu = *table.gpus.at(static_cast<size_t>(i));
    if (gpu.memory.contains(address)) return &gpu;
  }
  return nullptr;
}

void ensure_simulated_gpus(int count, int64_t memory_bytes) {
  if (count < 0 || count > kMaxSimulatedGpus) {
    raise(Code::InvalidArgument, "[Devices] between 0 and {} GPUs can be simulated, got {}",
          kMaxSimulatedGpus, count);
  }
  if (count == 0) return;
  [[maybe_unused]] static const bool registered = register_device();
  GpuTable& table = gpu_table();
  const std::lock_guard lock(table.making);
  for (int i = table.count.load(); i < count; ++i) {
    table.gpus.at(static_cast<size_t>(i)) =
        std::make_unique<SimulatedGpu>(fmt::format("GPU:{}", i), memory_bytes);
    table.count.store(i + 1, std::memory_order_release);
  }
}

int64_t parse_bytes(const std::string& text, const std::string& source) {
  int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  const std::string_view unit(rest, static_cast<size_t>(end - rest));
  const int shift = unit.empty() || unit == "B" ? 0
                    : unit == "KB"              ? 10
                    : unit == "MB"              ? 20
                    : unit == "GB"              ? 30
                                                : -1;
  if (error != std::errc() || shift < 0 || number < 0 || number > (INT64_MAX >> shift)) {
    raise(Code::InvalidArgument, "[Devices] {} must be a size such as 512MB or 2GB, got '{}'",
          source, excerpt(text));
  }
  return number << shift;
}

SimulatedGpuRequest requested_gpus() {
  SimulatedGpuRequest request;
  if (const auto count = environment_variable("COHORT_SIMULATED_GPUS")) {
    const std::optional<int> number = parse_non_negative(*count);
    if (!number || *number > kMaxSimulatedGpus) {
      raise(Code::InvalidArgument,
            "[Devices] COHORT_SIMULATED_GPUS must be a number from 0 to {}, got '{}'",
            kMaxSimulatedGpus, excerpt(*count));
    }
    request.count = *number;
  }
  if (const auto memory = environment_variable("COHORT_SIMULATED_GPU_MEMORY")) {
    request.memory_bytes = parse_bytes(*memory, "COHORT_SIMULATED_GPU_MEMORY");
  }
  return request;
}

}  // namespace cohort::internal
