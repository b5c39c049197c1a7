#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cohort/values.h"

// NVIDIA's NCCL, as far as all-reduces need it. Its header is not needed: these are the parts of
// its C interface that have not changed since version 2.
namespace cohort::internal {

struct NcclComm;  // NCCL's

// The functions of a loaded library.
struct NcclLibrary {
  std::string path;
  int (*get_version)(int* version);
  const char* (*get_error_string)(int result);
  int (*comm_init_all)(NcclComm** comms, int count, const int* devices);
  int (*comm_destroy)(NcclComm* comm);
  int (*all_reduce)(const void* send, void* receive, size_t count, int dtype, int op,
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

// The communicators of the devices that were used so far. Thread-safe: collectives of one object
// run one after the other, because two that are started in different orders wait for each other.
class NcclGroups {
 public:
  NcclGroups() = default;
  ~NcclGroups();
  NcclGroups(const NcclGroups&) = delete;
  NcclGroups& operator=(const NcclGroups&) = delete;

  // Element k of `tensors` is one tensor for each of the devices; so is that of the result.
  std::vector<std::vector<Tensor>> all_reduce(const NcclLibrary& library, ReduceOp op,
                                              const std::vector<std::vector<Tensor>>& tensors,
                                              const std::vector<std::string>& devices);

  // True for the first caller.
  bool is_first_refusal() { return !refused_.exchange(true); }

 private:
  using Comms = std::vector<NcclComm*>;
  const Comms& comms_for(const NcclLibrary& library, const std::vector<int>& indices);

  std::atomic<bool> refused_{false};
  std::mutex mutex_;
  std::map<std::pair<const NcclLibrary*, std::vector<int>>, Comms> groups_;  // guarded by mutex_
};

}  // namespace cohort::internal
