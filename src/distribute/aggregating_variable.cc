#include "distribute/aggregating_variable.h"

#include "base/raise.h"
#include "distribute/aggregate.h"
#include "distribute/variables.h"

namespace cohort::internal {

void AggregatingVariable::require_aggregation(std::string_view what) const {
  if (options().aggregation != VariableAggregation::None) return;
  raise(Code::InvalidArgument,
        "[AggregatingVariable] {} on '{}' in a replica: {} keeps one copy for {} replicas, and "
        "aggregation None does not say how what they write becomes one; make the variable with "
        "Sum, Mean or OnlyFirstReplica",
        what, name(), owner().extended().name(), owner().num_replicas_in_sync());
}

Tensor AggregatingVariable::write_in_replica(ReplicaContext& replica, Write how,
                                             const WrittenValue& given) {
  require_aggregation(name_of(how));
  const Tensor one = aggregate(replica, *this, how, given);
  return once_for_all(replica, [&] { return write_copy(0, how, one); });
}

Tensor AggregatingVariable::scatter_across(ScatterOp op, const IndexedSlices& slices) {
  require_scatter(*this, op);
  const CopyDeviceScope there(copy(0).device());
  return copy(0).scatter(op, slices);
}

Tensor AggregatingVariable::scatter_in_replica(ReplicaContext& replica, ScatterOp op,
                                               const IndexedSlices& slices) {
  require_aggregation("scatter");
  require_scatter(*this, op);
  const IndexedSlices joined = aggregate(replica, *this, op, slices);
  return once_for_all(replica, [&] { return scatter_across(op, joined); });
}

std::shared_ptr<DistributedVariable> AggregatingVariable::like_this(
    std::vector<Variable> copies) const {
  return std::make_shared<AggregatingVariable>(std::move(copies), options());
}

}  // namespace cohort::internal
