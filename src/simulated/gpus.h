#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "simulated/device_memory.h"

namespace cohort::internal {

inline constexpr int kMaxSimulatedGpus = 16;

// One simulated GPU. Lives as long as the process.
struct SimulatedGpu {
  SimulatedGpu(std::string its_name, int64_t memory_limit)
      : name(std::move(its_name)), memory(name, memory_limit) {}

  // Throws DataLoss, naming the running op and the device, if the GPU has failed.
  void require_alive() const;

  const std::string name;  // "GPU:0"
  DeviceMemory memory;
  std::atomic<bool> has_failed = false;

  // What happened since the process began, for simulated_gpu_status().
  std::atomic<int64_t> copies_from_host = 0;
  std::atomic<int64_t> bytes_from_host = 0;
  std::atomic<int64_t> pinned_copies = 0;
  std::atomic<int64_t> copies_to_host = 0;
  std::atomic<int64_t> bytes_to_host = 0;
  std::atomic<int64_t> copies_from_peers = 0;
  std::atomic<int64_t> bytes_from_peers = 0;
  std::atomic<int64_t> kernels = 0;
  std::atomic<int64_t> bridged_ops = 0;
};

// How many there are.
int simulated_gpu_count();
// 0 <= index < simulated_gpu_count().
SimulatedGpu& simulated_gpu(int index);
// The GPU to whose memory the address belongs; null for memory of the host.
SimulatedGpu* gpu_of_address(const void* address);

// Makes GPU:0 to GPU:(count - 1) exist, each with so much memory. The first call registers the
// device with the kernel library. Throws InvalidArgument for more than kMaxSimulatedGpus.
void ensure_simulated_gpus(int count, int64_t memory_bytes);

// What the environment asks for.
struct SimulatedGpuRequest {
  int count = 0;
  int64_t memory_bytes = int64_t{16} << 30;
};
// Reads COHORT_SIMULATED_GPUS and COHORT_SIMULATED_GPU_MEMORY. Throws InvalidArgument for values
// that mean nothing.
SimulatedGpuRequest requested_gpus();

// "512MB", "2GB", "4096" as a number of bytes. Throws InvalidArgument naming `source`.
int64_t parse_bytes(const std::string& text, const std::string& source);

}  // namespace cohort::internal
