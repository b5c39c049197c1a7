// How MultiWorkerExtended reduces and gathers: what the replicas of this worker have first, then
// what the workers have.

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "base/purpose.h"
#include "cohort/ops.h"
#include "collectives/access.h"
#include "collectives/dense.h"
#include "distribute/check_components.h"
#include "distribute/context.h"
#include "distribute/multi_worker_extended.h"
#include "distribute/replica_reductions.h"
#include "distribute/sparse_reduction.h"
#include "distribute/undefined_gradients.h"
#include "distribute/undistributed.h"
#include "ops/dispatch.h"

namespace cohort::internal {
namespace {

using Kind = DistributedValue::Kind;

// One component per replica, or one for the worker when all replicas have the same.
DistributedValue contributions(const DistributedValue& value) {
  if (is_of_this_worker(value)) return {Kind::PerReplica, {value[0]}};
  return value;
}

Gradient divided(const Gradient& total, int64_t count) {
  if (!total.is_sparse()) return div(total.dense(), count);
  const IndexedSlices& rows = total.slices();
  return IndexedSlices{div(rows.values, count), rows.indices, rows.dense_shape};
}

DistributedValue spread(const Gradient& total, const Destinations& destinations,
                        CrossDeviceOps& copying) {
  if (!total.is_sparse()) return copying.broadcast(total.dense(), destinations);
  std::vector<Gradient> copies;
  for (const std::string& device : destinations.devices()) {
    const DeviceScope on(device);
    copies.emplace_back(join_slices(ReduceOp::Sum, {&total, 1}));
  }
  return {Kind::Mirrored, std::move(copies)};
}

// Every replica gets a copy of each of `sums` on its own device.
void give_sums(const std::vector<Gradient>& sums, const ReplicaCalls& calls,
               const Destinations& devices, CrossDeviceOps& copying) {
  if (calls.size() == 1) {
    calls[0].results = sums;
    return;
  }
  for (size_t replica = 0; replica < calls.size(); ++replica) {
    calls[replica].results.resize(sums.size());
  }
  for (size_t i = 0; i < sums.size(); ++i) {
    if (!sums[i].defined()) continue;
    const DistributedValue copies = spread(sums[i], devices, copying);
    for (size_t replica = 0; replica < calls.size(); ++replica) {
      calls[replica].results[i] = copies[replica];
    }
  }
}

// The copies are equal on all workers, so that each knows the result.
bool is_common_to_workers(const ReduceRequest& request) {
  return is_common(request.value) && !is_of_this_worker(request.value);
}

// " by Mean"; "" for other reductions, which calls compare by themselves.
std::string describe_mean(ReduceOp op) { return op == ReduceOp::Mean ? " by Mean" : ""; }

// " of one value per worker": which of the values are that; "" when none is.
std::string describe_values_of_workers(std::span<const ReduceRequest> requests) {
  std::vector<size_t> positions;
  for (size_t i = 0; i < requests.size(); ++i) {
    if (is_of_this_worker(requests[i].value)) positions.push_back(i);
  }
  if (positions.empty()) return "";
  if (requests.size() == 1) return " of one value per worker";
  return fmt::format(" of {} values, of which numbers {} are one per worker", requests.size(),
                     fmt::join(positions, ", "));
}

}  // namespace

DistributedValue MultiWorkerExtended::reduce_to(ReduceOp op, const DistributedValue& value,
                                                const Destinations& destinations,
                                                const CommunicationOptions& options) {
  if (is_alone()) return MirroredExtended::reduce_to(op, value, destinations, options);
  require_cross_replica_or_default(strategy(), "reduce_to");
  const ReduceRequest request{value, destinations};
  if (!is_common_to_workers(request)) return batch_reduce_to(op, {&request, 1}, options)[0];
  return *or_refuse(CollectiveAccess::group(group_->communicator()), [&] {
    return reduce_undistributed(op, value, destinations, cross_device_ops(),
                                num_replicas_in_sync());
  });
}

std::vector<DistributedValue> MultiWorkerExtended::batch_reduce_to(
    ReduceOp op, std::span<const ReduceRequest> requests, const CommunicationOptions& options) {
  if (is_alone()) return MirroredExtended::batch_reduce_to(op, requests, options);
  require_cross_replica_or_default(strategy(), "batch_reduce_to");
  if (std::any_of(requests.begin(), requests.end(), is_common_to_workers)) {
    return StrategyExtended::batch_reduce_to(op, requests, options);
  }
  // Values of workers and values of replicas are counted differently, and a mean is a sum between
  // the workers, so they compare which ones they have.
  const std::string detail = describe_values_of_workers(requests) + describe_mean(op);
  const CollectivePurpose* const outer = CollectivePurpose::current();
  std::optional<CollectivePurpose> purpose;
  if (outer == nullptr || !detail.empty()) {
    purpose.emplace(std::string(outer != nullptr ? outer->what() : "reduce") + detail);
  }
  const CommunicationOptions how = completed(options);
  const ReduceOp inside = op == ReduceOp::Mean ? ReduceOp::Sum : op;
  std::vector<ReduceRequest> here;
  for (const ReduceRequest& request : requests) {
    here.push_back({contributions(request.value), request.destinations.devices()[0]});
  }
  const std::vector<DistributedValue> local =
      or_refuse(CollectiveAccess::group(group_->communicator()),
                [&] { return cross_device_ops().batch_reduce(inside, here, how); });
  std::vector<Gradient> totals;
  for (const DistributedValue& each : local) totals.push_back(each[0]);
  totals = together_.reduce(inside, totals, how);
  std::vector<DistributedValue> results;
  for (size_t i = 0; i < totals.size(); ++i) {
    const auto count = static_cast<int64_t>(here[i].value.size()) * num_workers();
    results.push_back(spread(op == ReduceOp::Mean ? divided(totals[i], count) : totals[i],
                             requests[i].destinations, cross_device_ops()));
  }
  return results;
}

DistributedValue MultiWorkerExtended::gather_to(const DistributedValue& value,
                                                const Destinations& destinations, int axis,
                                                const CommunicationOptions& options) {
  if (is_alone()) return MirroredExtended::gather_to(value, destinations, axis, options);
  require_cross_replica_or_default(strategy(), "gather_to");
  const CommunicationOptions how = completed(options);
  const DistributedValue local = or_refuse(CollectiveAccess::group(group_->communicator()), [&] {
    return cross_device_ops().gather(contributions(value), destinations.devices()[0], axis, how);
  });
  const Tensor all = together_.gather(local[0].dense(), axis, how);
  return cross_device_ops().broadcast(all, destinations);
}

Tensor MultiWorkerExtended::on_all_workers(const Tensor& holds) {
  if (is_alone()) return holds;
  const Gradient own = cast(holds, kInt32);
  return cast(together_.reduce(ReduceOp::Min, {own}, options_.communication)[0].dense(), kBool);
}

void MultiWorkerExtended::meet(ReplicaContext& context, ReplicaCall& own,
                               const std::function<void(const ReplicaCalls&)>& once) {
  const MergePoint::Call call = own.at_meeting();
  if (context.meeting() == nullptr) return once(ReplicaCalls({&call.own, 1}));
  context.meeting()->meet(
      context.local_replica(), call,
      [&](std::span<void* const> owns) {
        const ReplicaCalls calls(owns);
        calls.check_same();
        const AdoptedPurpose of_the_first(calls[0].purpose);  // whichever replica this is
        once(calls);
      },
      nullptr);
}

std::vector<Gradient> MultiWorkerExtended::replica_all_reduce(ReplicaContext& context, ReduceOp op,
                                                              const std::vector<Gradient>& values,
                                                              const CommunicationOptions& options) {
  if (is_alone()) return MirroredExtended::replica_all_reduce(context, op, values, options);
  ReplicaCall own{.what = "all_reduce", .op = op, .values = values, .options = completed(options)};
  meet(context, own, [&](const ReplicaCalls& calls) { reduce_for_all(*this, calls); });
  return std::move(own.results);
}

std::vector<Gradient> MultiWorkerExtended::replica_all_reduce_gradients(
    ReplicaContext& context, ReduceOp op, const std::vector<Gradient>& values,
    const CommunicationOptions& options) {
  if (is_alone()) return MirroredExtended::replica_all_reduce(context, op, values, options);
  ReplicaCall own{.what = "all_reduce", .op = op, .values = values, .options = completed(options)};
  meet(context, own, [&](const ReplicaCalls& calls) { reduce_gradients(calls); });
  return std::move(own.results);
}

// What this worker's replicas have decides nothing but its part: others may have more, or less.
void MultiWorkerExtended::reduce_gradients(const ReplicaCalls& calls) {
  const ModeScope cross({&strategy(), nullptr});
  const bool is_mean = calls[0].op == ReduceOp::Mean;
  const ReduceOp op = is_mean ? ReduceOp::Sum : calls[0].op;
  const size_t count = calls[0].values.size();
  std::vector<bool> lacks(count);
  std::vector<ReduceRequest> here;
  std::vector<size_t> places;
  for (size_t i = 0; i < count; ++i) {
    std::vector<Gradient> values = calls.at(i);
    if (!fill_undefined(op, values)) continue;
    lacks[i] = !std::all_of(values.begin(), values.end(),
                            [](const Gradient& value) { return value.defined(); });
    if (lacks[i]) continue;
    check_reducible("all_reduce", values);
    here.push_back({{Kind::PerReplica, std::move(values)}, worker_devices()[0]});
    places.push_back(i);
  }
  std::vector<Gradient> totals(count);
  const std::vector<DistributedValue> local =
      cross_device_ops().batch_reduce(op, here, calls[0].options);
  for (size_t k = 0; k < places.size(); ++k) totals[places[k]] = local[k][0];
  const bool as_nodes = thread_dispatch().builder != nullptr;
  const CollectivePurpose* const outer = CollectivePurpose::current();
  const std::string what(outer != nullptr ? outer->what() : "all_reduce");
  const CollectivePurpose purpose((as_nodes ? describe_presence(totals) : what) +
                                  describe_mean(calls[0].op));
  totals = together_.reduce_some(op, std::move(totals), lacks, calls[0].options);
  for (Gradient& total : totals) {
    if (is_mean && total.defined()) total = divided(total, num_replicas_in_sync());
  }
  give_sums(totals, calls, Destinations::of_devices(worker_devices()), cross_device_ops());
}

Gradients MultiWorkerExtended::replica_sum_gradients(ReplicaContext& context, const Gradients& own,
                                                     const std::vector<Variable>& variables) {
  if (is_alone() || is_tracing_alone(context)) {
    return MirroredExtended::replica_sum_gradients(context, own, variables);
  }
  const RecordingPause unheard;
  const UpdatedVariables updated(variables);
  std::optional<CollectivePurpose> purpose;
  if (thread_dispatch().builder != nullptr) purpose.emplace(describe_presence(own, variables));
  ReplicaCall call{.what = "apply_gradients", .values = own, .options = options_.communication};
  meet(context, call, [&](const ReplicaCalls& calls) { sum_gradients(calls, variables); });
  return std::move(call.results);
}

std::vector<Gradient> MultiWorkerExtended::add_up(
    const std::vector<std::vector<Gradient>>& values) const {
  const std::string here = worker_devices()[0];
  std::vector<ReduceRequest> requests;
  for (const std::vector<Gradient>& each : values) {
    check_reducible("apply_gradients", each);
    requests.push_back({{Kind::PerReplica, each}, here});
  }
  const RecordingPause unheard;
  std::vector<Gradient> sums;
  for (const DistributedValue& sum :
       cross_device_ops().batch_reduce(ReduceOp::Sum, requests, options_.communication)) {
    sums.push_back(sum[0]);
  }
  return sums;
}

std::vector<Gradient> MultiWorkerExtended::trace_sums(const ReplicaGradients& own,
                                                      const std::vector<Variable>& variables) {
  std::vector<size_t> everywhere(variables.size());
  std::iota(everywhere.begin(), everywhere.end(), size_t{0});
  std::vector<Gradient> sums =
      totals_of(own, everywhere, [this](const auto& values) { return add_up(values); });
  // Which variables have none is decided here, on each worker by itself. The workers compare it,
  // instead of adding up the gradients of different variables.
  const CollectivePurpose purpose(describe_presence(sums, variables));
  return together_.reduce_some(ReduceOp::Sum, std::move(sums), {}, options_.communication);
}

void MultiWorkerExtended::sum_gradients(const ReplicaCalls& calls,
                                        const std::vector<Variable>& variables) {
  ReplicaGradients own;
  for (size_t replica = 0; replica < calls.size(); ++replica) {
    own.emplace_back(calls[replica].values.begin(), calls[replica].values.end());
  }
  const ModeScope cross({&strategy(), nullptr});
  const bool as_nodes = thread_dispatch().builder != nullptr;
  const std::vector<Gradient> sums =
      as_nodes ? trace_sums(own, variables) : gradients_->sum(own, variables);
  give_sums(sums, calls, Destinations::of_devices(worker_devices()), cross_device_ops());
}

GatheredValue MultiWorkerExtended::replica_all_gather(ReplicaContext& context, const Tensor& value,
                                                      int axis,
                                                      const CommunicationOptions& options) {
  if (is_alone()) return MirroredExtended::replica_all_gather(context, value, axis, options);
  const Gradient gathered = value;
  ReplicaCall own{
      .what = "all_gather", .axis = axis, .values = {&gathered, 1}, .options = completed(options)};
  meet(context, own, [&](const ReplicaCalls& calls) {
    const std::vector<Gradient> values = calls.at(0);
    check_gatherable("all_gather", values, axis);
    const Tensor rows = reshape(rows_of_all(values, axis), {1});
    const Tensor all = together_.gather(rows, 0, own.options);
    const std::vector<Range> lower{{.begin = 0, .end = worker_id()}};
    gather_for_all(*this, calls, sum(slice(all, lower)));
  });
  return {own.results[0].dense(), own.results[1].dense()};
}

}  // namespace cohort::internal
