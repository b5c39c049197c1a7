#include "cohort/simulated_gpus.h"

#include "base/raise.h"
#include "simulated/gpus.h"
#include "tensor/devices.h"

namespace cohort {
namespace {

internal::SimulatedGpu& find_gpu(std::string_view name) {
  const internal::Device& device = internal::find_device(name);
  if (device.place.is_host()) {
    internal::raise(Code::InvalidArgument, "[Devices] '{}' is not a simulated GPU",
                    device.full_name);
  }
  return internal::simulated_gpu(device.place.gpu);
}

}  // namespace

void make_simulated_gpus(int count, int64_t memory_bytes) {
  internal::ensure_gpu_devices(count, memory_bytes);
}

SimulatedGpuStatus simulated_gpu_status(std::string_view device) {
  const internal::SimulatedGpu& gpu = find_gpu(device);
  const internal::DeviceMemory::Use memory = gpu.memory.use();
  return {.memory_limit = memory.limit,
          .memory_in_use = memory.in_use,
          .memory_peak = memory.peak,
          .copies_from_host = gpu.copies_from_host,
          .bytes_from_host = gpu.bytes_from_host,
          .pinned_copies = gpu.pinned_copies,
          .copies_to_host = gpu.copies_to_host,
          .bytes_to_host = gpu.bytes_to_host,
          .copies_from_peers = gpu.copies_from_peers,
          .bytes_from_peers = gpu.bytes_from_peers,
          .kernels = gpu.kernels,
          .bridged_ops = gpu.bridged_ops,
          .has_failed = gpu.has_failed};
}

void fail_simulated_gpu(std::string_view device) { find_gpu(device).has_failed = true; }
void restore_simulated_gpu(std::string_view device) { find_gpu(device).has_failed = false; }

}  // namespace cohort
