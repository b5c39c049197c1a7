#pragma once

#include "cohort/device.h"

namespace cohort {

// Simulated GPUs are devices GPU:0, GPU:1, ... whose memory the host cannot touch and whose kernels
// are those of the host. A program for several GPUs is rehearsed with them on any machine: results
// equal the CPU's down to the last bit, and mistakes that a GPU would punish are errors. They say
// nothing about speed. COHORT_SIMULATED_GPUS=4 makes them, too, before the program begins.

// Makes GPU:0 to GPU:(count - 1) devices of this process, each with that much memory. Devices that
// exist stay as they are. Throws InvalidArgument for more than 16 GPUs, or if a GPU would have more
// than 32 GB.
void make_simulated_gpus(int count, int64_t memory_bytes = int64_t{16} << 30);

// What a simulated GPU has done since the process began.
struct SimulatedGpuStatus {
  int64_t memory_limit = 0;      // bytes
  int64_t memory_in_use = 0;     // bytes
  int64_t memory_peak = 0;       // bytes
  int64_t copies_from_host = 0;  // to this GPU
  int64_t bytes_from_host = 0;
  int64_t pinned_copies = 0;   // of copies_from_host, those from pinned memory
  int64_t copies_to_host = 0;  // from this GPU
  int64_t bytes_to_host = 0;
  int64_t copies_from_peers = 0;  // to this GPU, from other GPUs
  int64_t bytes_from_peers = 0;
  int64_t kernels = 0;      // calls of torch's operators
  int64_t bridged_ops = 0;  // calls of ops without a kernel for GPUs, which ran on the host
  bool has_failed = false;
};
// Throws InvalidArgument, listing the devices, if this process has no such simulated GPU.
SimulatedGpuStatus simulated_gpu_status(std::string_view device);

// From now on every operation and every copy on that GPU throws DataLoss, as after an error of
// the hardware. Throws InvalidArgument as simulated_gpu_status() does.
void fail_simulated_gpu(std::string_view device);
// Ends the failure. The memory has kept its content.
void restore_simulated_gpu(std::string_view device);

}  // namespace cohort
