#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "base/log.h"
#include "cohort/cross_device_ops.h"
#include "distribute/nccl_groups.h"
#include "distribute/packed_all_reduce.h"

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
