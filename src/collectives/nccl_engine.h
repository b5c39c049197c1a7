#pragma once

#include "collectives/collective_group.h"
#include "collectives/nccl_library.h"

namespace cohort::internal {

// Whose memory NCCL gets: that of GPUs. A stand-in on host memory takes everything.
enum class NcclMemory { Gpu, Any };

// NCCL for tensors on GPUs, one of which each member has made current; everything else goes by
// messages, among it what members compare before NCCL's calls. Those are put on the device's
// default stream, in whose order the kernel library's own work runs: a call returns before its
// result is there, as kernels do. The library must stay loaded.
EngineChoice nccl_engine(const NcclLibrary& library, NcclMemory memory = NcclMemory::Gpu);

}  // namespace cohort::internal
