#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "collectives/nccl_library.h"

namespace cohort::internal {

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

 private:
  using Comms = std::vector<NcclComm*>;
  const Comms& comms_for(const NcclLibrary& library, const std::vector<int>& indices);

  std::mutex mutex_;
  std::map<std::pair<const NcclLibrary*, std::vector<int>>, Comms> groups_;  // guarded by mutex_
};

}  // namespace cohort::internal
