#include "distribute/undistributed.h"

#include "base/raise.h"
#include "distribute/variables.h"
#include "ops/variable_cell.h"
#include "tensor/body.h"

namespace cohort::internal {
namespace {

using Kind = DistributedValue::Kind;

bool keeps_equal_values(ReduceOp op) {
  return op == ReduceOp::Mean || op == ReduceOp::Min || op == ReduceOp::Max;
}

bool is_zero_literal(const Gradient& value) {
  if (value.is_sparse() || !is_literal(value.dense())) return false;
  return value.dense().to<double>() == 0;
}

[[noreturn]] void raise_not_distributed(ReduceOp op, const DistributedValue& value, int replicas) {
  raise(Code::InvalidArgument,
        "[reduce] {} over {} replicas of {}, which is the same for all of them and not one value "
        "for each; reduce what run() returned, or multiply by num_replicas_in_sync()",
        to_string(op), replicas, value.to_string());
}

}  // namespace

bool is_common(const DistributedValue& value) {
  if (value.kind() == Kind::PerReplica) return false;
  if (value.kind() != Kind::Variable) return true;
  return value.size() == 1 || is_mirrored(value.variable());
}

bool is_literal(const Tensor& value) {
  return value.defined() && body(value).weak && value.shape().rank() == 0;
}

DistributedValue broadcast_value(const Tensor& value, const Destinations& destinations,
                                 CrossDeviceOps& copying) {
  return is_literal(value) ? DistributedValue(value) : copying.broadcast(value, destinations);
}

std::optional<DistributedValue> reduce_undistributed(ReduceOp op, const DistributedValue& value,
                                                     const Destinations& destinations,
                                                     CrossDeviceOps& copying, int replicas) {
  if (!is_common(value)) return std::nullopt;
  if (replicas > 1 && !keeps_equal_values(op) && !is_zero_literal(value[0])) {
    raise_not_distributed(op, value, replicas);
  }
  if (value.kind() == Kind::Mirrored) return value;
  const Gradient common = value.value();
  if (common.is_sparse()) return DistributedValue(common);
  return broadcast_value(common.dense(), destinations, copying);
}

}  // namespace cohort::internal
