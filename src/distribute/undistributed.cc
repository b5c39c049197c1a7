#include "distribute/undistributed.h"

#include "base/raise.h"
#include "distribute/sync_on_read_variable.h"
#include "tensor/body.h"

namespace cohort::internal {
namespace {

using Kind = DistributedValue::Kind;

bool keeps_equal_values(ReduceOp op) {
  return op == ReduceOp::Mean || op == ReduceOp::Min || op == ReduceOp::Max;
}

bool is_zero_number(const DistributedValue& value) {
  return value.is_number() && value[0].dense().to<double>() == 0;
}

// Made of a C++ number, whose dtype gives way: what it is written to decides.
bool takes_any_dtype(const Tensor& value) {
  return value.defined() && body(value).weak && value.shape().rank() == 0;
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
  const VariableImpl* const variable = VariableAccess::impl(value.variable()).get();
  return dynamic_cast<const SyncOnReadVariable*>(variable) == nullptr;
}

bool is_of_this_worker(const DistributedValue& value) {
  if (value.kind() == Kind::Variable) return distributed(value.variable()) == nullptr;
  return value.kind() == Kind::Plain;
}

DistributedValue broadcast_value(const Tensor& value, const Destinations& destinations,
                                 CrossDeviceOps& copying) {
  return takes_any_dtype(value) ? DistributedValue(value) : copying.broadcast(value, destinations);
}

std::optional<DistributedValue> reduce_undistributed(ReduceOp op, const DistributedValue& value,
                                                     const Destinations& destinations,
                                                     CrossDeviceOps& copying, int replicas) {
  if (!is_common(value)) return std::nullopt;
  if (replicas > 1 && !keeps_equal_values(op) && !is_zero_number(value)) {
    raise_not_distributed(op, value, replicas);
  }
  if (value.kind() == Kind::Mirrored) return value;
  const Gradient common = value.value();
  if (common.is_sparse()) return DistributedValue(common);
  return broadcast_value(common.dense(), destinations, copying);
}

}  // namespace cohort::internal
