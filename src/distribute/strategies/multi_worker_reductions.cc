// How MultiWorkerExtended reduces and gathers: first the values of the replicas of this worker,
// then the results of the workers.

#include <fmt/ranges.h>

#include <algorithm>

#include "base/collective_purpose.h"
#include "cohort/ops.h"
#include "collectives/communicator_access.h"
#include "collectives/tensor_collectives.h"
#include "distribute/contexts/context.h"
#include "distribute/contexts/distributed_values.h"
#include "distribute/reduce/gradient_presence.h"
#include "distribute/reduce/replica_calls.h"
#include "distribute/reduce/tensor_reduction.h"
#include "distribute/reduce/worker_collectives.h"
#include "distribute/strategies/multi_worker_strategy.h"
#include "ops/dispatch.h"

namespace cohort::internal {
namespace {

using Kind = DistributedValue::Kind;

// One component per replica, or one for the worker where all replicas have the same value.
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

// Whether the copies are equal on all workers, so that each worker knows the result.
bool is_common_to_workers(const ReduceRequest& request) {
  return is_common(request.value) && !is_of_this_worker(request.value);
}

// " by Mean"; "" for other reductions, which calls compare by themselves.
std::string describe_mean(ReduceOp op) { return op == ReduceOp::Mean ? " by Mean" : ""; }

// The purpose, which the workers compare. Each worker decides by itself which gradients it has, and
// nodes cannot make up for a difference. So where a graph is being built the purpose lists the
// gradients.
std::string describe_reduction(const ReplicaCall& call, const std::vector<Gradient>& totals) {
  if (thread_dispatch().builder == nullptr) return std::string(call.reason());
  return call.variables != nullptr ? describe_presence(totals, *call.variables)
                                   : describe_presence(totals);
}

// " of one value per worker": says which values are such; "" when no value is.
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

std::vector<DistributedValue> MultiWorkerExtended::batch_reduce_to(
    ReduceOp op, std::span<const ReduceRequest> requests, const CommunicationOptions& options) {
  if (is_alone()) return MirroredExtended::batch_reduce_to(op, requests, options);
  require_cross_replica_or_default(strategy(), "batch_reduce_to");
  if (std::none_of(requests.begin(), requests.end(), is_common_to_workers)) {
    return reduce_together(op, requests, options);
  }
  std::vector<DistributedValue> results;
  for (const ReduceRequest& request : requests) {
    if (!is_common_to_workers(request)) {
      results.push_back(reduce_together(op, {&request, 1}, options)[0]);
      continue;
    }
    results.push_back(*or_refuse(CollectiveAccess::group(group().communicator()), [&] {
      return reduce_undistributed(op, request.value, request.destinations, cross_device_ops(),
                                  num_replicas_in_sync());
    }));
  }
  return results;
}

std::vector<DistributedValue> MultiWorkerExtended::reduce_together(
    ReduceOp op, std::span<const ReduceRequest> requests, const CommunicationOptions& options) {
  // A value of the worker counts once, values of replicas count once per replica, and a mean is a
  // sum between the workers. So the workers compare which of these they have.
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
      or_refuse(CollectiveAccess::group(group().communicator()),
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
  const DistributedValue local = or_refuse(CollectiveAccess::group(group().communicator()), [&] {
    return cross_device_ops().gather(contributions(value), destinations.devices()[0], axis, how);
  });
  const Tensor all = together_.gather(local[0].dense(), axis, how);
  return cross_device_ops().broadcast(all, destinations);
}

std::vector<Gradient> MultiWorkerExtended::replica_all_reduce(ReplicaContext& context,
                                                              const ReplicaReduction& own) {
  if (is_alone()) return MirroredExtended::replica_all_reduce(context, own);
  ReplicaCall call{
      .what = "all_reduce", .op = own.op, .values = own.values, .options = completed(own.options)};
  meet_once(context, call, [&](const ReplicaCalls& calls) {
    own.may_lack ? reduce_gradients(calls) : reduce_for_all(*this, calls);
  });
  return std::move(call.results);
}

// The gradients of this worker's replicas decide only its own part: other workers may have more or
// fewer.
void MultiWorkerExtended::reduce_gradients(const ReplicaCalls& calls) {
  const ModeScope cross({&strategy(), nullptr});
  const bool is_mean = calls[0].op == ReduceOp::Mean;
  const ReduceOp op = is_mean ? ReduceOp::Sum : calls[0].op;
  const size_t count = calls[0].values.size();
  std::vector<bool> lacks(count);
  std::vector<Gradient> totals(count);
  std::vector<ReduceRequest> here;
  std::vector<size_t> places;
  for (size_t i = 0; i < count; ++i) {
    std::vector<Gradient> values = calls.at(i);
    if (!fill_undefined(op, values)) continue;
    lacks[i] = !std::ranges::all_of(values, &Gradient::defined);
    if (lacks[i]) continue;
    check_reducible(calls[0].what, values);
    totals[i] = values[0];
    if (values.size() == 1) continue;
    here.push_back({{Kind::PerReplica, std::move(values)}, worker_devices()[0]});
    places.push_back(i);
  }
  const std::vector<DistributedValue> local =
      cross_device_ops().batch_reduce(op, here, calls[0].options);
  for (size_t k = 0; k < places.size(); ++k) totals[places[k]] = local[k][0];
  const CollectivePurpose purpose(describe_reduction(calls[0], totals) +
                                  describe_mean(calls[0].op));
  totals = together_.reduce_some(op, std::move(totals), lacks, calls[0].options);
  for (Gradient& total : totals) {
    if (is_mean && total.defined()) total = divided(total, num_replicas_in_sync());
  }
  give_sums(totals, calls);
}

void MultiWorkerExtended::give_sums(const std::vector<Gradient>& sums,
                                    const ReplicaCalls& calls) const {
  if (calls.size() == 1) {
    calls[0].results = sums;
    return;
  }
  const Destinations devices = Destinations::of_devices(worker_devices());
  for (size_t replica = 0; replica < calls.size(); ++replica) {
    calls[replica].results.resize(sums.size());
  }
  for (size_t i = 0; i < sums.size(); ++i) {
    if (!sums[i].defined()) continue;
    const DistributedValue copies = spread(sums[i], devices, cross_device_ops());
    for (size_t replica = 0; replica < calls.size(); ++replica) {
      calls[replica].results[i] = copies[replica];
    }
  }
}

std::vector<Gradient> MultiWorkerExtended::add_up(
    const std::vector<std::vector<Gradient>>& values) const {
  const std::string here = worker_devices()[0];
  std::vector<ReduceRequest> requests;
  for (const std::vector<Gradient>& each : values) {
    check_reducible("apply_gradients", each);
    requests.push_back({{Kind::PerReplica, each}, here});
  }
  const RecordingPause not_recorded;
  std::vector<Gradient> sums;
  for (const DistributedValue& sum :
       cross_device_ops().batch_reduce(ReduceOp::Sum, requests, options_.communication)) {
    sums.push_back(sum[0]);
  }
  return sums;
}

// ---- What workers tell each other

InputTotals MultiWorkerExtended::sum_over_workers(const InputTotals& here) {
  const std::vector<int64_t> sums = sum_numbers(
      {here.replicas_with_data, here.samples, here.failed_workers, here.undescribed_workers},
      "input totals");
  return {.replicas_with_data = sums[0],
          .samples = sums[1],
          .failed_workers = sums[2],
          .undescribed_workers = sums[3]};
}

std::vector<int64_t> MultiWorkerExtended::sum_numbers(const std::vector<int64_t>& here,
                                                      const std::string& what) {
  if (is_alone()) return here;
  const GroupWaitClock::Scope rendezvous(*group_wait_);
  const CollectivePurpose purpose(what);
  return group()
      .communicator()
      .all_reduce(Tensor::from(here), ReduceOp::Sum, options_.communication)
      .to_vector<int64_t>();
}

std::vector<std::string> MultiWorkerExtended::gather_from_workers(const std::string& here,
                                                                  const std::string& what) {
  if (is_alone()) return {here};
  const GroupWaitClock::Scope rendezvous(*group_wait_);
  const CollectivePurpose purpose(what);
  Communicator workers = group().communicator();
  return texts_of_workers(workers, here, options_.communication);
}

Tensor MultiWorkerExtended::from_first_worker(const Tensor& value) {
  return is_alone() ? value : together_.from_first(value, options_.communication);
}

Tensor MultiWorkerExtended::on_all_workers(const Tensor& holds) {
  if (is_alone()) return holds;
  const Gradient own = cast(holds, kInt32);
  return cast(together_.reduce(ReduceOp::Min, {own}, options_.communication)[0].dense(), kBool);
}

}  // namespace cohort::internal
