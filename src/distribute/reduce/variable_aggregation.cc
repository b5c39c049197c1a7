#include "distribute/reduce/variable_aggregation.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/collective_purpose.h"
#include "base/raise.h"
#include "cohort/ops.h"
#include "distribute/contexts/replica_rendezvous.h"
#include "distribute/reduce/gradient_presence.h"
#include "distribute/reduce/replica_calls.h"
#include "ops/dispatch.h"
#include "ops/infer.h"
#include "ops/variable_ops.h"

namespace cohort::internal {
namespace {

using Owners = PerReplica<const DistributedVariable*>;

// The purpose, which the members compare.
std::string purpose_of(std::string_view write, const DistributedVariable& variable) {
  return fmt::format("{} of variable {}", write, variable.label());
}

// Replicas that meet with different writes are out of step.
void check_same_write(const Owners& owners, const PerReplica<Write>& hows) {
  for (size_t i = 1; i < owners.size(); ++i) {
    if (owners[i] == owners[0] && hows[i] == hows[0]) continue;
    raise(Code::FailedPrecondition,
          "[Variable] replica 0 calls {}, while replica {} calls {}; writes with an aggregation "
          "must come in the same order in all replicas",
          purpose_of(name_of(hows[0]), *owners[0]), i, purpose_of(name_of(hows[i]), *owners[i]));
  }
}

std::string number_in_sum(const DistributedVariable& variable) {
  return fmt::format(
      "[Variable] '{}' sums what replicas write, but at least one of the {} replicas of {} wrote a "
      "C++ number, which does not say whether to add it once or once per replica; pass a Tensor to "
      "add it once per replica, or write outside run()",
      variable.name(), variable.owner().num_replicas_in_sync(), variable.owner().extended().name());
}

[[noreturn]] void refuse_number(const DistributedVariable& variable) {
  raise(Code::InvalidArgument, "{}", number_in_sum(variable));
}

bool sums(const DistributedVariable& variable) {
  return variable.options().aggregation == VariableAggregation::Sum;
}

// Whether other workers have replicas too. Only an exchange shows what their replicas were given.
bool spans_workers(const DistributedVariable& variable) {
  const StrategyExtended& extended = variable.owner().extended();
  return extended.num_replicas_in_sync() > static_cast<int>(extended.num_local_replicas());
}

// What a replica adds to the count of numbers. Where possible it has the dtype of the values, so
// that both are reduced together. In that dtype a sum of ones is never 0.
Tensor count_of(const DistributedVariable& variable, bool is_number) {
  constexpr int kMaxInOneByte = 127;
  const DType dtype = variable.first_copy().dtype;
  const bool holds_count =
      size_of(dtype) > 1 || variable.owner().num_replicas_in_sync() <= kMaxInOneByte;
  const bool fits = is_floating(dtype) || (is_integer(dtype) && holds_count);
  return cast(Tensor(is_number ? 1 : 0), fits ? dtype : kInt64);
}

// `sum`, unless some replica wrote a number. A graph finds that out when it runs.
Tensor unless_numbers(const DistributedVariable& variable, const Tensor& sum, const Tensor& count) {
  if (count.is_symbolic()) {
    return require_true(sum, equal(count, zeros_like(count)), number_in_sum(variable));
  }
  if (count.to<double>() != 0) refuse_number(variable);
  return sum;
}

// make(r) for each of the replicas.
template <typename Make>
PerReplica<Tensor> for_replicas(size_t replicas, const Make& make) {
  std::vector<std::optional<Tensor>> all;
  for (size_t i = 0; i < replicas; ++i) all.emplace_back(make(i));
  return PerReplica<Tensor>(std::move(all));
}

Tensor part(const DistributedValue& reduced, size_t replica) {
  return reduced[std::min(replica, reduced.size() - 1)].dense();
}

// Reduces the values of all replicas together with the count of those that are numbers. So a worker
// that was given numbers takes part in the reduction, and all workers throw.
PerReplica<Tensor> summed_over_workers(const DistributedVariable& variable,
                                       const PerReplica<Tensor>& values,
                                       const PerReplica<bool>& are_numbers) {
  const PerReplica<Tensor> counts =
      for_replicas(values.size(), [&](size_t i) { return count_of(variable, are_numbers[i]); });
  const Destinations copies(variable.self());
  const std::vector<ReduceRequest> requests{{values, copies}, {counts, copies}};
  const std::vector<DistributedValue> reduced =
      variable.owner().extended().batch_reduce_to(ReduceOp::Sum, requests);
  return for_replicas(values.size(), [&](size_t i) {
    return unless_numbers(variable, part(reduced[0], i), part(reduced[1], i));
  });
}

PerReplica<Tensor> combined(const DistributedVariable& variable, const PerReplica<Tensor>& values,
                            const PerReplica<bool>& are_numbers) {
  StrategyExtended& extended = variable.owner().extended();
  const VariableAggregation aggregation = variable.options().aggregation;
  if (aggregation == VariableAggregation::OnlyFirstReplica) {
    const Tensor first = extended.from_first_worker(values[0]);
    return for_replicas(values.size(), [&](size_t) { return first; });
  }
  if (sums(variable)) {
    if (spans_workers(variable)) return summed_over_workers(variable, values, are_numbers);
    for (size_t i = 0; i < values.size(); ++i) {
      if (are_numbers[i]) refuse_number(variable);
    }
  }
  const DistributedValue reduced =
      extended.reduce_to(reduce_op_of(aggregation), values, Destinations(variable.self()));
  return for_replicas(values.size(), [&](size_t i) { return part(reduced, i); });
}

// In a function that the replica traces by itself, it cannot meet the other replicas: their values
// are unknown until the function runs.
Tensor trace_aggregate(ReplicaContext& replica, const DistributedVariable& variable,
                       const WrittenValue& given) {
  if (!sums(variable)) return aggregate_values(replica, variable, given.value);
  if (!spans_workers(variable)) {
    if (given.is_number) refuse_number(variable);
    return aggregate_values(replica, variable, given.value);
  }
  const std::vector<Tensor> reduced = replica.all_reduce(
      ReduceOp::Sum, std::vector<Tensor>{given.value, count_of(variable, given.is_number)}, {},
      Site());
  return unless_numbers(variable, reduced[0], reduced[1]);
}

}  // namespace

Tensor aggregate_values(ReplicaContext& replica, const DistributedVariable& variable,
                        const Tensor& value) {
  const VariableAggregation aggregation = variable.options().aggregation;
  if (aggregation != VariableAggregation::OnlyFirstReplica) {
    return replica.all_reduce(reduce_op_of(aggregation), value, {}, Site());
  }
  if (value.dtype() == kBool) {  // has no sum
    return cast(aggregate_values(replica, variable, cast(value, kUInt8)), kBool);
  }
  const bool first = replica.replica_id_in_sync_group() == 0;
  return replica.all_reduce(ReduceOp::Sum, first ? value : zeros_like(value), {}, Site());
}

Tensor aggregate(ReplicaContext& replica, const DistributedVariable& variable, Write how,
                 const WrittenValue& given) {
  if (replica.num_replicas_in_sync() == 1) return given.value;
  const RecordingPause not_recorded;
  const CollectivePurpose purpose(purpose_of(name_of(how), variable));
  // A number takes the variable's dtype, so that it meets the tensors of other replicas.
  const WrittenValue own{given.is_number
                             ? fit_to_variable(variable.first_copy(), given.value, "Variable")
                             : given.value,
                         given.is_number};
  if (is_tracing_alone(replica)) return trace_aggregate(replica, variable, own);
  return replica.merge_call(
      [](Strategy&, const Owners& owners, const PerReplica<Write>& hows,
         const PerReplica<Tensor>& values, const PerReplica<bool>& are_numbers) {
        check_same_write(owners, hows);
        return combined(*owners[0], values, are_numbers);
      },
      &variable, how, own.value, own.is_number);
}

IndexedSlices aggregate(ReplicaContext& replica, const DistributedVariable& variable, ScatterOp op,
                        const IndexedSlices& slices) {
  if (replica.num_replicas_in_sync() == 1) return slices;
  const RecordingPause not_recorded;
  const CollectivePurpose purpose(purpose_of(name_of(op), variable));
  if (variable.options().aggregation != VariableAggregation::OnlyFirstReplica) {
    return replica.all_reduce(reduce_op_of(variable.options().aggregation), slices, {}, Site());
  }
  const bool first = replica.replica_id_in_sync_group() == 0;
  const Gradient rows = first ? Gradient(slices) : zero_like(slices);
  return replica.all_reduce(ReduceOp::Sum, rows.slices(), {}, Site());
}

void await_other_copies(ReplicaContext& replica) {
  if (Access::rendezvous(replica) == nullptr || is_tracing_alone(replica)) return;
  Access::rendezvous(replica)->meet(replica.local_replica(), {"assign", 0, nullptr}, nullptr,
                                    nullptr);
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
        "[Variable] {} on '{}': replaced rows cannot be {}; use aggregation None or "
        "OnlyFirstReplica, or scatter_add, _sub, _mul or _div",
        name_of(op), variable.name(),
        aggregation == VariableAggregation::Sum ? "summed" : "averaged");
}

}  // namespace cohort::internal
