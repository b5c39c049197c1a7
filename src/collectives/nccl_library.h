#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "cohort/values.h"

// NVIDIA's NCCL, as far as it is used here. Its header is not needed: these are the parts of its C
// interface that have not changed since version 2.4.
namespace cohort::internal {

struct EngineChoice;
struct NcclComm;  // NCCL's
// By which members of one communicator find each other.
struct NcclId {
  std::array<char, 128> bytes;
};

// The functions of a loaded library.
struct NcclLibrary {
  std::string path;
  int (*get_version)(int* version);
  const char* (*get_error_string)(int result);
  int (*comm_init_all)(NcclComm** comms, int count, const int* devices);
  int (*get_unique_id)(NcclId* id);
  int (*comm_init_rank)(NcclComm** comm, int count, NcclId id, int rank);
  int (*comm_destroy)(NcclComm* comm);
  int (*comm_abort)(NcclComm* comm);
  int (*all_reduce)(const void* send, void* receive, size_t count, int dtype, int op,
                    NcclComm* comm, void* stream);
  int (*broadcast)(const void* send, void* receive, size_t count, int dtype, int root,
                   NcclComm* comm, void* stream);
  int (*reduce)(const void* send, void* receive, size_t count, int dtype, int op, int root,
                NcclComm* comm, void* stream);
  int (*reduce_scatter)(const void* send, void* receive, size_t receive_count, int dtype, int op,
                        NcclComm* comm, void* stream);
  int (*group_start)();
  int (*group_end)();

  // Throws Internal with NCCL's text unless `result` is success.
  void check(int result, std::string_view call) const;
};

// The library that COHORT_NCCL_LIBRARY names, or libnccl.so.2; loaded when first asked for. Null
// where it cannot be loaded, which is logged once, with the reason.
const NcclLibrary* nccl_library();

// NCCL's number for a dtype and for a reduction; nullopt where it has none.
std::optional<int> nccl_dtype(DType dtype);
std::optional<int> nccl_op(ReduceOp op);

// Whose memory NCCL gets: that of GPUs. A stand-in on host memory takes everything.
enum class NcclMemory { Gpu, Any };

// NCCL for tensors on GPUs, one of which each member has made current; everything else goes by
// messages, among it what members compare before NCCL's calls. Those are put on the device's
// default stream, in whose order the kernel library's own work runs: a call returns before its
// result is there, as kernels do. The library must stay loaded.
EngineChoice nccl_engine(const NcclLibrary& library, NcclMemory memory = NcclMemory::Gpu);

}  // namespace cohort::internal
