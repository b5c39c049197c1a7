#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "cohort/cross_device_ops.h"
#include "cohort/device.h"
#include "collectives/nccl_library.h"

namespace cohort {
namespace {

struct Choice {
  std::shared_ptr<CrossDeviceOps> ops;
  std::string_view reason;
};

Choice choose(std::span<const std::string> devices) {
  const auto is_cpu = [](const std::string& device) {
    return DeviceName::parse_any_form(device).type.value_or("CPU") == "CPU";
  };
  const auto cpus = std::count_if(devices.begin(), devices.end(), is_cpu);
  if (cpus == std::ssize(devices)) {
    return {std::make_shared<DirectAllReduce>(), "all devices are CPUs of this process"};
  }
  if (cpus > 0) {
    return {std::make_shared<ReductionToOneDevice>(), "the devices are CPUs and accelerators"};
  }
  if (internal::nccl_library() == nullptr) {
    return {std::make_shared<ReductionToOneDevice>(), "the devices are GPUs, but there is no NCCL"};
  }
  return {std::make_shared<NcclAllReduce>(), "all devices are GPUs"};
}

}  // namespace

std::shared_ptr<CrossDeviceOps> default_cross_device_ops(std::span<const std::string> devices) {
  Choice choice = choose(devices);
  internal::log_info("[CrossDeviceOps] using {} between {} devices, because {}",
                     choice.ops->to_string(), devices.size(), choice.reason);
  return std::move(choice.ops);
}

}  // namespace cohort
