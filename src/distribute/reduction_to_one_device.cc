#include <fmt/format.h>

#include "cohort/cross_device_ops.h"
#include "cohort/device.h"
#include "distribute/reduce_tensors.h"

namespace cohort {

ReductionToOneDevice::ReductionToOneDevice(std::string reduce_to_device, Accumulate accumulate)
    : device_(reduce_to_device.empty() ? "" : canonical_device(reduce_to_device)),
      accumulate_(std::move(accumulate)) {}

std::string ReductionToOneDevice::to_string() const {
  return fmt::format("ReductionToOneDevice({})", device_.empty() ? "first destination" : device_);
}

std::vector<std::vector<Tensor>> ReductionToOneDevice::reduce_dense(
    ReduceOp op, std::span<const ReduceRequest> requests, const CommunicationOptions&) {
  std::vector<std::vector<Tensor>> results;
  for (const ReduceRequest& request : requests) {
    const std::vector<std::string>& destinations = request.destinations.devices();
    const std::string& device = device_.empty() ? destinations[0] : device_;
    const DeviceScope on(device);
    std::vector<Tensor> moved;
    for (const Gradient& component : request.value.components()) {
      moved.push_back(internal::on_device(component.dense(), device));
    }
    const bool custom = accumulate_ && op == ReduceOp::Sum;
    const Tensor total = custom ? accumulate_(moved) : internal::reduce_tensors(op, moved);
    results.push_back(internal::on_devices(total, destinations));
  }
  return results;
}

}  // namespace cohort
