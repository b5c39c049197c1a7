#include "distribute/mirrored_extended.h"

#include <algorithm>

#include "distribute/context.h"
#include "distribute/replica_reductions.h"
#include "distribute/undistributed.h"

namespace cohort::internal {

MirroredExtended::MirroredExtended(std::vector<std::string> devices, const MirroredOptions& options)
    : devices_(std::move(devices)),
      options_(options),
      cross_device_ops_(options.cross_device_ops != nullptr ? options.cross_device_ops
                                                            : default_cross_device_ops(devices_)) {
  const CrossDeviceOps& chosen = *cross_device_ops_;
  if (typeid(chosen) == typeid(DirectAllReduce)) direct_.emplace(devices_);
}

std::vector<DistributedValue> MirroredExtended::batch_reduce_to(
    ReduceOp op, std::span<const ReduceRequest> requests, const CommunicationOptions& options) {
  require_cross_replica_or_default(strategy(), "batch_reduce_to");
  if (std::ranges::any_of(requests, is_common, &ReduceRequest::value)) {
    return StrategyExtended::batch_reduce_to(op, requests, options);
  }
  return cross_device_ops_->batch_reduce(op, requests, options);
}

std::vector<Gradient> MirroredExtended::replica_all_reduce(ReplicaContext& context, ReduceOp op,
                                                           const std::vector<Gradient>& values,
                                                           const CommunicationOptions& options) {
  if (!direct_ || context.meeting() == nullptr || context.meeting()->shared_graph() != nullptr) {
    return StrategyExtended::replica_all_reduce(context, op, values, options);
  }
  return direct_->run(*context.meeting(), context.local_replica(),
                      {.what = "all_reduce", .op = op, .values = values, .options = options},
                      [&](const ReplicaCalls& calls) { reduce_for_all(*this, calls); });
}

std::unique_ptr<StrategyExtended> MirroredExtended::clone() const {
  return std::make_unique<MirroredExtended>(devices_, options_);
}

}  // namespace cohort::internal
