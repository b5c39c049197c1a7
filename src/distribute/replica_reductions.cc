#include "distribute/replica_reductions.h"

#include <optional>

#include "base/raise.h"
#include "cohort/ops.h"
#include "distribute/check_components.h"
#include "distribute/context.h"
#include "distribute/merge_point.h"
#include "distribute/reduce_tensors.h"
#include "distribute/undefined_gradients.h"
#include "ops/dispatch.h"
#include "ops/replica_port.h"

namespace cohort {
namespace internal {
namespace {

// Reaches the others through the context of the replica that this thread is in.
class ContextPort final : public ReplicaPort {
 public:
  int num_replicas() const override { return get_replica_context()->num_replicas_in_sync(); }

  std::vector<Tensor> all_reduce(ReduceOp op, std::span<const Tensor> values,
                                 const CommunicationOptions& options) override {
    ReplicaContext& context = *get_replica_context();
    const std::vector<Gradient> own(values.begin(), values.end());
    std::vector<Tensor> results;
    for (const Gradient& result :
         context.strategy().extended().replica_all_reduce(context, op, own, options)) {
      results.push_back(result.dense());
    }
    return results;
  }

  std::vector<Tensor> all_gather(const Tensor& value, int axis,
                                 const CommunicationOptions& options) override {
    ReplicaContext& context = *get_replica_context();
    const GatheredValue gathered =
        context.strategy().extended().replica_all_gather(context, value, axis, options);
    return {gathered.all, gathered.own_rows};
  }

  bool is_shared(const GraphBuilder* graph) const override {
    const MergePoint* meeting = get_replica_context()->meeting();
    return graph != nullptr && meeting != nullptr && meeting->shared_graph() == graph;
  }
};

ReplicaPort* find_port() {
  static ContextPort port;
  const ReplicaContext* context = get_replica_context();
  return context != nullptr && context->num_replicas_in_sync() > 1 ? &port : nullptr;
}

MergePoint& meeting_of(const ReplicaContext& context, std::string_view what) {
  if (context.meeting() != nullptr) return *context.meeting();
  raise(Code::Unimplemented,
        "[{}] replica {} of {} has no meeting with the others; the strategy must say how they meet",
        what, context.replica_id_in_sync_group(), context.strategy().extended().name());
}

// The size of a value along an axis, as a scalar of the graph when it is not known yet.
Tensor size_along(const Tensor& value, int axis) {
  const int64_t size = value.shape().has_rank() ? value.shape()[axis] : Shape::kUnknownDim;
  return size >= 0 ? Tensor(size) : cohort::shape(value)[axis];
}

// 0 to n - 1 for the n rows of a value along an axis.
Tensor rows_along(const Tensor& value, int axis) {
  const int64_t size = value.shape().has_rank() ? value.shape()[axis] : Shape::kUnknownDim;
  if (size >= 0) return range(size);
  std::vector<cohort::Range> first(static_cast<size_t>(value.rank()),
                                   cohort::Range{.begin = 0, .end = 1});
  first[static_cast<size_t>(axis)] = {};
  return cumsum(ones_like(cast(reshape(slice(value, first), {-1}), kInt64))) - 1;
}

// Which rows of what was gathered are the replica's.
Tensor own_rows(std::span<const Gradient> values, size_t replica, int axis) {
  Tensor rows = rows_along(values[replica].dense(), axis);
  for (size_t lower = 0; lower < replica; ++lower) {
    rows = rows + size_along(values[lower].dense(), axis);
  }
  return rows;
}

// Nodes of a function that this replica traces by itself: rows are gathered, the rest is reduced.
// There is at least one reduction, so that all replicas meet and compare what they have, which is
// this thread's purpose.
std::vector<Gradient> trace_all_reduce(ReduceOp op, const std::vector<Gradient>& values,
                                       int replicas, const CommunicationOptions& options) {
  const bool adds = op == ReduceOp::Sum || op == ReduceOp::Mean;
  std::vector<Gradient> results(values.size());
  std::vector<Tensor> dense;
  std::vector<size_t> positions;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i].defined()) continue;
    if (values[i].is_sparse() && adds) continue;
    dense.push_back(values[i].dense());
    positions.push_back(i);
  }
  if (dense.empty() && !values.empty()) dense.push_back(zeros(Shape{}));
  if (dense.empty()) return results;
  const std::vector<Tensor> reduced = replica_all_reduce(op, dense, options);
  for (size_t k = 0; k < positions.size(); ++k) results[positions[k]] = reduced[k];
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i].defined() || !values[i].is_sparse() || !adds) continue;
    const IndexedSlices& own = values[i].slices();
    Tensor rows = replica_all_gather(own.values, 0, options);
    if (op == ReduceOp::Mean) rows = div(rows, replicas);
    results[i] = IndexedSlices{rows, replica_all_gather(own.indices, 0, options), own.dense_shape};
  }
  return results;
}

// Tells the tapes of what is dense: rows have no gradient.
void record_dense(ReduceOp op, const std::vector<Gradient>& values,
                  const std::vector<Gradient>& results, const CommunicationOptions& options) {
  if (thread_dispatch().recorder == nullptr) return;
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i].defined() || values[i].is_sparse() || results[i].is_sparse()) continue;
    inputs.push_back(values[i].dense());
    outputs.push_back(results[i].dense());
  }
  if (!inputs.empty()) record_all_reduce(op, options, inputs, outputs);
}

}  // namespace

bool is_tracing_alone(const ReplicaContext& context) {
  const GraphBuilder* graph = thread_dispatch().builder;
  const MergePoint* meeting = context.meeting();
  return graph != nullptr && (meeting == nullptr || meeting->shared_graph() != graph);
}

void reduce_for_all(StrategyExtended& extended, const ReplicaCalls& calls) {
  calls.check_same();
  const Destinations everywhere = Destinations::of_devices(extended.worker_devices());
  std::vector<ReduceRequest> requests;
  std::vector<size_t> places;
  for (size_t i = 0; i < calls[0].values.size(); ++i) {
    std::vector<Gradient> values = calls.at(i);
    if (!fill_undefined(calls[0].op, values)) continue;
    check_reducible("all_reduce", values);
    requests.push_back({{DistributedValue::Kind::PerReplica, std::move(values)}, everywhere});
    places.push_back(i);
  }
  const ModeScope cross({&extended.strategy(), nullptr});
  const std::vector<DistributedValue> reduced =
      extended.batch_reduce_to(calls[0].op, requests, calls[0].options);
  for (size_t replica = 0; replica < calls.size(); ++replica) {
    calls[replica].results.assign(calls[0].values.size(), Gradient());
    for (size_t k = 0; k < reduced.size(); ++k) {
      calls[replica].results[places[k]] =
          reduced[k].size() == 1 ? reduced[k][0] : reduced[k][replica];
    }
  }
}

Tensor rows_of_all(std::span<const Gradient> values, int axis) {
  Tensor rows = cast(Tensor(0), kInt64);
  for (const Gradient& value : values) rows = rows + size_along(value.dense(), axis);
  return rows;
}

void gather_for_all(StrategyExtended& extended, const ReplicaCalls& calls,
                    const Tensor& rows_before) {
  calls.check_same();
  const int axis = calls[0].axis;
  const std::vector<Gradient> values = calls.at(0);
  check_gatherable("all_gather", values, axis);
  const ModeScope cross({&extended.strategy(), nullptr});
  const DistributedValue gathered = extended.gather_to(
      {DistributedValue::Kind::PerReplica, values},
      Destinations::of_devices(extended.worker_devices()), axis, calls[0].options);
  for (size_t replica = 0; replica < calls.size(); ++replica) {
    const Tensor rows = own_rows(values, replica, axis);
    calls[replica].results = {gathered[replica], rows_before.defined() ? rows + rows_before : rows};
  }
}

void connect_replica_ops() { set_replica_port_finder(find_port); }

}  // namespace internal

using internal::ReplicaCall;
using internal::ReplicaCalls;

std::vector<Gradient> StrategyExtended::replica_all_reduce(ReplicaContext& context, ReduceOp op,
                                                           const std::vector<Gradient>& values,
                                                           const CommunicationOptions& options) {
  ReplicaCall own{.what = "all_reduce", .op = op, .values = values, .options = options};
  internal::meeting_of(context, own.what)
      .meet(
          context.local_replica(), own.at_meeting(),
          [&](std::span<void* const> owns) { internal::reduce_for_all(*this, ReplicaCalls(owns)); },
          nullptr);
  return std::move(own.results);
}

std::vector<Gradient> StrategyExtended::replica_all_reduce_gradients(
    ReplicaContext& context, ReduceOp op, const std::vector<Gradient>& values,
    const CommunicationOptions& options) {
  return replica_all_reduce(context, op, values, options);
}

Gradients StrategyExtended::replica_sum_gradients(ReplicaContext& context, const Gradients& own,
                                                  const std::vector<Variable>& variables) {
  const internal::UpdatedVariables updated(variables);
  if (internal::thread_dispatch().builder == nullptr) {
    return context.all_reduce(ReduceOp::Sum, own, {}, Site());
  }
  // A traced step has one form, so the replicas compare which gradients they have.
  const internal::CollectivePurpose purpose(internal::describe_presence(own, variables));
  if (internal::is_tracing_alone(context)) {
    return internal::trace_all_reduce(ReduceOp::Sum, own, context.num_replicas_in_sync(), {});
  }
  const internal::RecordingPause unheard;
  return replica_all_reduce(context, ReduceOp::Sum, own, {});
}

GatheredValue StrategyExtended::replica_all_gather(ReplicaContext& context, const Tensor& value,
                                                   int axis, const CommunicationOptions& options) {
  const Gradient gathered = value;
  ReplicaCall own{.what = "all_gather", .axis = axis, .values = {&gathered, 1}, .options = options};
  internal::meeting_of(context, own.what)
      .meet(
          context.local_replica(), own.at_meeting(),
          [&](std::span<void* const> owns) { internal::gather_for_all(*this, ReplicaCalls(owns)); },
          nullptr);
  return {own.results[0].dense(), own.results[1].dense()};
}

std::vector<Gradient> ReplicaContext::all_reduce_values(ReduceOp op,
                                                        const std::vector<Gradient>& values,
                                                        bool may_lack,
                                                        const CommunicationOptions& options,
                                                        const std::string& structure, Site site) {
  check_current("all_reduce");
  check(options);
  if (num_replicas_in_sync() == 1) return values;
  const bool is_tracing = internal::is_tracing_alone(*this);
  // What the library itself reduces is for the purpose that its caller has.
  std::optional<internal::CollectivePurpose> purpose;
  if (site.line != 0 || internal::CollectivePurpose::current() == nullptr) {
    if (is_tracing) {
      purpose.emplace(internal::describe_presence(values), site);
    } else if (!structure.empty()) {
      purpose.emplace("all_reduce of " + structure, site);
    } else {
      purpose.emplace("all_reduce", site);
    }
  }
  if (is_tracing) {
    return internal::trace_all_reduce(op, values, num_replicas_in_sync(), options);
  }
  std::vector<Gradient> results;
  {
    const internal::RecordingPause unheard;
    StrategyExtended& extended = strategy_.extended();
    results = may_lack ? extended.replica_all_reduce_gradients(*this, op, values, options)
                       : extended.replica_all_reduce(*this, op, values, options);
  }
  internal::record_dense(op, values, results, options);
  return results;
}

Tensor ReplicaContext::all_gather_value(const Gradient& value, int axis,
                                        const CommunicationOptions& options,
                                        const std::string& structure, Site site) {
  const internal::CollectivePurpose purpose(
      fmt::format("all_gather{}{} along axis {}", structure.empty() ? "" : " of ", structure, axis),
      site);
  check_current("all_gather");
  check(options);
  const bool alone = num_replicas_in_sync() == 1;
  if (alone || value.is_sparse()) internal::check_gatherable("all_gather", {&value, 1}, axis);
  const Tensor own = value.dense();
  return alone ? own : internal::replica_all_gather(own, axis, options);
}

}  // namespace cohort
