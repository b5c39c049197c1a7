#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/log.h"
#include "cohort/cross_device_ops.h"
#include "cohort/device.h"
#include "collectives/nccl_library.h"
#include "distribute/reduce/packed_all_reduce.h"
#include "tensor/memory.h"

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

NcclGroups::~NcclGroups() {
  for (const auto& [key, comms] : groups_) {
    for (NcclComm* comm : comms) key.first->comm_destroy(comm);
  }
}

const NcclGroups::Comms& NcclGroups::comms_for(const NcclLibrary& library,
                                               const std::vector<int>& indices) {
  Comms& comms = groups_[{&library, indices}];
  if (comms.empty()) {
    Comms made(indices.size());
    library.check(library.comm_init_all(made.data(), static_cast<int>(made.size()), indices.data()),
                  "ncclCommInitAll");
    comms = std::move(made);
  }
  return comms;
}

namespace {

std::vector<int> indices_of(const std::vector<std::string>& devices) {
  std::vector<int> indices;
  for (const std::string& device : devices) {
    indices.push_back(DeviceName::parse(device).index.value_or(0));
  }
  return indices;
}

// Memory for the results, on the devices of the tensors.
std::vector<std::vector<WritableTensor>> allocate_results(
    const std::vector<std::vector<Tensor>>& tensors, const std::vector<std::string>& devices) {
  std::vector<std::vector<WritableTensor>> results(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    for (size_t k = 0; k < devices.size(); ++k) {
      const DeviceScope on(devices[k]);
      results[i].push_back(allocate_like(tensors[i][k]));
    }
  }
  return results;
}

// The first result that is not success.
class FirstFailure {
 public:
  void note(int result, std::string_view call) {
    if (result_ != 0) return;
    result_ = result;
    call_ = call;
  }
  void check(const NcclLibrary& library) const { library.check(result_, call_); }

 private:
  int result_ = 0;
  std::string_view call_;
};

}  // namespace

std::vector<std::vector<Tensor>> NcclGroups::all_reduce(
    const NcclLibrary& library, ReduceOp op, const std::vector<std::vector<Tensor>>& tensors,
    const std::vector<std::string>& devices) {
  const std::lock_guard lock(mutex_);
  const Comms& comms = comms_for(library, indices_of(devices));
  const auto results = allocate_results(tensors, devices);
  FirstFailure failure;
  failure.note(library.group_start(), "ncclGroupStart");
  for (size_t i = 0; i < tensors.size(); ++i) {
    for (size_t k = 0; k < comms.size(); ++k) {
      const Tensor& own = tensors[i][k];
      // The stream is the default one, in whose order the kernel library's own work runs.
      failure.note(library.all_reduce(element_bytes(own), results[i][k].data,
                                      static_cast<size_t>(own.size()), *nccl_dtype(own.dtype()),
                                      *nccl_op(op), comms[k], nullptr),
                   "ncclAllReduce");
    }
  }
  failure.note(library.group_end(), "ncclGroupEnd");
  failure.check(library);
  std::vector<std::vector<Tensor>> reduced(results.size());
  for (size_t i = 0; i < results.size(); ++i) {
    for (const WritableTensor& result : results[i]) reduced[i].push_back(result.tensor);
  }
  return reduced;
}

}  // namespace cohort::internal

namespace cohort {
namespace {

// A program makes many strategies, and it is the same machine for all of them.
void warn_once(const std::vector<std::string>& devices) {
  static std::atomic<bool> told = false;
  if (told.exchange(true)) return;
  internal::log_warning("[Nccl] reduces between GPUs only, not on {}; reducing on one device",
                        fmt::join(devices, ", "));
}

}  // namespace

NcclAllReduce::NcclAllReduce(int num_packs)
    : num_packs_(internal::checked_num_packs(num_packs, "NcclAllReduce")),
      groups_(std::make_shared<internal::NcclGroups>()) {}

std::string NcclAllReduce::to_string() const {
  return fmt::format("NcclAllReduce(num_packs={})", num_packs_);
}

bool NcclAllReduce::reaches(const DeviceName& device) const { return device.type == "GPU"; }

std::vector<std::vector<Tensor>> NcclAllReduce::reduce_dense(
    ReduceOp op, std::span<const ReduceRequest> requests, const CommunicationOptions& options) {
  const DType dtype = requests[0].value[0].dense().dtype();
  const auto takes = [&](const std::vector<std::string>& devices) {
    const bool all = std::all_of(devices.begin(), devices.end(), [&](const std::string& device) {
      return reaches(DeviceName::parse(device));
    });
    if (!all) warn_once(devices);
    return all && internal::nccl_library() != nullptr && internal::nccl_dtype(dtype).has_value();
  };
  const auto all_reduce = [&](const std::vector<internal::DeviceTensors>& tensors,
                              const std::vector<std::string>& devices) {
    return groups_->all_reduce(*internal::nccl_library(), op, tensors, devices);
  };
  return internal::PackedAllReduce{num_packs_, all_reduce, takes}.run(op, requests, options);
}

}  // namespace cohort
