// What the reductions between devices will replace: sums on the first device.

#include "base/raise.h"
#include "cohort/device.h"
#include "cohort/ops.h"
#include "cohort/strategy.h"

namespace cohort {

Destinations::Destinations(std::string_view device) : devices_{canonical_device(device)} {}
Destinations::Destinations(const Tensor& tensor) : devices_{tensor.device()} {}
Destinations::Destinations(const Variable& variable)
    : devices_(DistributedValue(variable).devices()) {}
Destinations::Destinations(const DistributedValue& value) : devices_(value.devices()) {}

namespace {

DistributedValue spread(const Tensor& value, const Destinations& destinations) {
  std::vector<Gradient> all;
  for (const std::string& device : destinations.devices()) {
    const DeviceScope there(device);
    all.emplace_back(identity(value));
  }
  return {DistributedValue::Kind::Mirrored, std::move(all)};
}

}  // namespace

DistributedValue CrossDeviceOps::reduce(ReduceOp op, const DistributedValue& value,
                                        const Destinations& destinations,
                                        const CommunicationOptions&) {
  Tensor total = value[0].dense();
  for (size_t i = 1; i < value.size(); ++i) total = total + value[i].dense();
  if (op == ReduceOp::Mean) total = total / static_cast<float>(value.size());
  return spread(total, destinations);
}

std::vector<DistributedValue> CrossDeviceOps::batch_reduce(ReduceOp op,
                                                           std::span<const ReduceRequest> requests,
                                                           const CommunicationOptions& options) {
  std::vector<DistributedValue> all;
  for (const ReduceRequest& request : requests) {
    all.push_back(reduce(op, request.value, request.destinations, options));
  }
  return all;
}

DistributedValue CrossDeviceOps::broadcast(const Tensor& value, const Destinations& destinations) {
  return spread(value, destinations);
}

DistributedValue CrossDeviceOps::gather(const DistributedValue& value,
                                        const Destinations& destinations, int axis,
                                        const CommunicationOptions&) {
  std::vector<Tensor> parts;
  for (const Gradient& part : value.components()) parts.push_back(part.dense());
  return spread(concat(parts, axis), destinations);
}

ReductionToOneDevice::ReductionToOneDevice(std::string reduce_to_device, Accumulate accumulate)
    : device_(std::move(reduce_to_device)), accumulate_(std::move(accumulate)) {}
std::string ReductionToOneDevice::to_string() const { return "ReductionToOneDevice"; }
std::vector<std::vector<Tensor>> ReductionToOneDevice::reduce_dense(ReduceOp,
                                                                    std::span<const ReduceRequest>,
                                                                    const CommunicationOptions&) {
  return {};
}

std::shared_ptr<CrossDeviceOps> default_cross_device_ops(std::span<const std::string>) {
  return std::make_shared<ReductionToOneDevice>();
}

std::vector<Gradient> StrategyExtended::replica_all_reduce(ReplicaContext& context, ReduceOp op,
                                                           const std::vector<Gradient>& values,
                                                           const CommunicationOptions& options) {
  return context.merge_call(
      [&](Strategy& strategy, const std::vector<PerReplica<Gradient>>& all) {
        std::vector<DistributedValue> reduced;
        for (const PerReplica<Gradient>& value : all) {
          reduced.push_back(strategy.extended().reduce_to(op, value, value, options));
        }
        return reduced;
      },
      values);
}

}  // namespace cohort
