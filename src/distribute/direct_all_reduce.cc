#include "cohort/cross_device_ops.h"
#include "cohort/device.h"
#include "distribute/reduce_tensors.h"

namespace cohort {

std::string DirectAllReduce::to_string() const { return "DirectAllReduce()"; }

std::vector<std::vector<Tensor>> DirectAllReduce::reduce_dense(
    ReduceOp op, std::span<const ReduceRequest> requests, const CommunicationOptions&) {
  std::vector<std::vector<Tensor>> results;
  for (const ReduceRequest& request : requests) {
    const std::vector<std::string>& devices = request.destinations.devices();
    const DeviceScope on(devices[0]);
    std::vector<Tensor> moved;
    for (const Gradient& component : request.value.components()) {
      moved.push_back(internal::on_device(component.dense(), devices[0]));
    }
    const Tensor total = internal::reduce_tensors(op, moved, moved.size());
    results.push_back(internal::on_devices(total, devices));
  }
  return results;
}

}  // namespace cohort
