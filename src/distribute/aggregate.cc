#include "distribute/aggregate.h"

#include <algorithm>

#include "base/raise.h"
#include "cohort/ops.h"
#include "distribute/merge_point.h"
#include "distribute/replica_reductions.h"
#include "ops/dispatch.h"

namespace cohort::internal {
namespace {

using Owners = PerReplica<const DistributedVariable*>;

// Replicas that write different variables at one meeting have lost step.
void check_same_variable(const Owners& owners) {
  for (size_t i = 1; i < owners.size(); ++i) {
    if (owners[i] == owners[0]) continue;
    raise(Code::FailedPrecondition,
          "[Variable] replica 0 writes variable '{}' while replica {} writes '{}'; writes with an "
          "aggregation must come in the same order in all replicas",
          owners[0]->name(), i, owners[i]->name());
  }
}

bool is_number(const Tensor& value) { return body(value).weak; }

bool equal_numbers(const Tensor& a, const Tensor& b) {
  return is_number(a) && is_number(b) && a.to<double>() == b.to<double>();
}

// Whether all replicas gave one and the same thing. What one replica of several workers gives is
// its own, unless it is a number.
bool is_common(const PerReplica<Tensor>& values, int replicas) {
  if (values.size() == 1 && replicas > 1) return is_number(values[0]);
  for (size_t i = 1; i < values.size(); ++i) {
    if (TensorAccess::id(values[i]) != TensorAccess::id(values[0]) &&
        !equal_numbers(values[i], values[0])) {
      return false;
    }
  }
  return true;
}

[[noreturn]] void refuse_common(const DistributedVariable& variable) {
  raise(Code::InvalidArgument,
        "[Variable] '{}' sums what replicas write, but was given one value that all {} replicas of "
        "{} share, so that nobody knows whether to count it once or for each; compute the value in "
        "the replica, or write outside of run()",
        variable.name(), variable.owner().num_replicas_in_sync(),
        variable.owner().extended().name());
}

PerReplica<Tensor> for_all(const Tensor& value, size_t replicas) {
  return PerReplica<Tensor>(std::vector<std::optional<Tensor>>(replicas, value), true);
}

PerReplica<Tensor> combined(const DistributedVariable& variable, const PerReplica<Tensor>& values) {
  const VariableAggregation aggregation = variable.options().aggregation;
  if (aggregation == VariableAggregation::OnlyFirstReplica) {
    return for_all(variable.owner().extended().from_first_worker(values[0]), values.size());
  }
  if (is_common(values, variable.owner().num_replicas_in_sync())) {
    if (aggregation == VariableAggregation::Sum) refuse_common(variable);
    return for_all(values[0], values.size());
  }
  const DistributedValue reduced = variable.owner().extended().reduce_to(
      reduce_op_of(aggregation), values, Destinations(variable.self()));
  std::vector<std::optional<Tensor>> parts;
  for (size_t i = 0; i < values.size(); ++i) {
    parts.emplace_back(reduced[std::min(i, reduced.size() - 1)].dense());
  }
  return PerReplica<Tensor>(std::move(parts));
}

// No rows, of the same kind.
IndexedSlices without_rows(const IndexedSlices& slices) {
  const std::vector<Range> none{{.begin = 0, .end = 0}};
  return {slice(slices.values, none), slice(slices.indices, none), slices.dense_shape};
}

}  // namespace

Tensor aggregate_values(ReplicaContext& replica, const DistributedVariable& variable,
                        const Tensor& value) {
  const VariableAggregation aggregation = variable.options().aggregation;
  if (aggregation != VariableAggregation::OnlyFirstReplica) {
    return replica.all_reduce(reduce_op_of(aggregation), value);
  }
  if (value.dtype() == kBool) {  // has no sum
    return cast(aggregate_values(replica, variable, cast(value, kUInt8)), kBool);
  }
  const bool first = replica.replica_id_in_sync_group() == 0;
  return replica.all_reduce(ReduceOp::Sum, first ? value : zeros_like(value));
}

Tensor aggregate(ReplicaContext& replica, const DistributedVariable& variable, const Tensor& value,
                 WritersTurn* turn) {
  if (replica.num_replicas_in_sync() == 1) return value;
  const RecordingPause unheard;
  if (is_tracing_alone(replica)) {
    // Nobody to meet: what the others give is not known before the function runs.
    const bool sums = variable.options().aggregation == VariableAggregation::Sum;
    if (sums && is_number(value)) refuse_common(variable);
    return aggregate_values(replica, variable, value);
  }
  return replica.merge_call(
      [turn](Strategy&, const Owners& owners, const PerReplica<Tensor>& values) {
        check_same_variable(owners);
        PerReplica<Tensor> parts = combined(*owners[0], values);
        if (turn != nullptr) turn->lock();
        return parts;
      },
      &variable, value);
}

IndexedSlices aggregate(ReplicaContext& replica, const DistributedVariable& variable,
                        const IndexedSlices& slices) {
  if (replica.num_replicas_in_sync() == 1) return slices;
  const RecordingPause unheard;
  if (variable.options().aggregation != VariableAggregation::OnlyFirstReplica) {
    return replica.all_reduce(reduce_op_of(variable.options().aggregation), slices);
  }
  const bool first = replica.replica_id_in_sync_group() == 0;
  return replica.all_reduce(ReduceOp::Sum, first ? slices : without_rows(slices));
}

void await_other_copies(ReplicaContext& replica) {
  if (replica.meeting() == nullptr || is_tracing_alone(replica)) return;
  replica.meeting()->meet(replica.local_replica(), {"assign", 0, nullptr}, nullptr, nullptr);
}

Tensor once_for_all(ReplicaContext& replica, const std::function<Tensor()>& body) {
  return replica.merge_call([&](Strategy&) { return body(); });
}

void require_scatter(const DistributedVariable& variable, ScatterOp op) {
  const VariableAggregation aggregation = variable.options().aggregation;
  const bool replaces = op == ScatterOp::Update || op == ScatterOp::Min || op == ScatterOp::Max;
  const bool merges =
      aggregation == VariableAggregation::Sum || aggregation == VariableAggregation::Mean;
  if (!replaces || !merges) return;
  raise(Code::Unimplemented,
        "[Variable] scatter_{} on '{}': rows that it replaces cannot be {}; use aggregation None "
        "or OnlyFirstReplica, or scatter_add, _sub, _mul or _div",
        op == ScatterOp::Update ? "update" : (op == ScatterOp::Min ? "min" : "max"),
        variable.name(), aggregation == VariableAggregation::Sum ? "summed" : "averaged");
}

}  // namespace cohort::internal
