#include "cohort/legacy.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/raise.h"

namespace cohort::legacy {

std::shared_ptr<CrossDeviceOps> all_reduce_cross_device_ops(std::string_view algorithm,
                                                            int num_packs) {
  if (algorithm == "nccl") return std::make_shared<NcclAllReduce>(num_packs);
  if (algorithm == "hierarchical_copy") {
    return std::make_shared<HierarchicalCopyAllReduce>(num_packs);
  }
  internal::raise(
      Code::InvalidArgument,
      "[AllReduceCrossDeviceOps] the algorithm must be nccl or hierarchical_copy, got '{}'",
      algorithm);
}

CommunicationOptions collective_hints(int64_t bytes_per_pack,
                                      std::optional<double> timeout_seconds) {
  using std::chrono::nanoseconds;
  CommunicationOptions options{.bytes_per_pack = bytes_per_pack};
  if (!timeout_seconds) return options;
  if (std::isnan(*timeout_seconds) || *timeout_seconds < 0) {
    internal::raise(Code::InvalidArgument,
                    "[collective_hints] timeout_seconds must be 0 (no limit) or positive, got {}; "
                    "leave it out for the default",
                    *timeout_seconds);
  }
  // Nanoseconds count up to 9.2e9 s. A process does not live as long.
  constexpr double kMaxSeconds = 9e9;
  const bool is_limited = *timeout_seconds > 0 && *timeout_seconds < kMaxSeconds;
  options.timeout =
      is_limited ? std::max(nanoseconds(1), std::chrono::duration_cast<nanoseconds>(
                                                std::chrono::duration<double>(*timeout_seconds)))
                 : nanoseconds::max();
  return options;
}

void check_replication_mode(InputReplicationMode mode) {
  if (mode == InputReplicationMode::PerWorker) return;
  internal::raise(
      Code::InvalidArgument,
      "[make_dataset_iterator] expected one pipeline for all towers, got replication_mode "
      "PerReplica; use Strategy::distribute_datasets_from_function for it");
}

void MultiStepContext::set_last_step_output(const std::string& name, const DistributedValue& value,
                                            std::optional<ReduceOp> op) {
  if (in_cross_replica_context()) {
    outputs_.insert_or_assign(name, op ? DistributedValue(strategy_.reduce(*op, value)) : value);
    return;
  }
  if (!op) {
    internal::raise(Code::InvalidArgument,
                    "[set_last_step_output] '{}' is set inside a replica, so it needs a ReduceOp "
                    "that combines the values of all replicas",
                    name);
  }
  get_replica_context()->merge_call(
      [&](Strategy& strategy, const PerReplica<Tensor>& all) {
        outputs_.insert_or_assign(name, DistributedValue(strategy.reduce(*op, all)));
      },
      value.value().dense());
}

bool has_distribution_strategy() { return has_strategy(); }

Strategy& get_distribution_strategy() { return get_strategy(); }

std::optional<TowerContext> get_tower_context() {
  ReplicaContext* context = get_replica_context();
  return context != nullptr ? std::optional<TowerContext>(*context) : std::nullopt;
}

Strategy* get_cross_tower_context() {
  return in_cross_replica_context() ? &get_strategy() : nullptr;
}

Tensor group(const std::vector<Tensor>& values) { return cohort::group(values); }

DistributedIterator make_dataset_iterator(Strategy& strategy, const data::Dataset& dataset,
                                          InputReplicationMode mode) {
  check_replication_mode(mode);
  return strategy.distribute_dataset(dataset).iterator();
}

DistributedValue broadcast(Strategy& strategy, const Tensor& value) {
  return strategy.extended().broadcast_to(
      value, Destinations::of_devices(strategy.extended().worker_devices()));
}

DistributedValue broadcast(Strategy& strategy, const Tensor& value,
                           const Destinations& destinations) {
  return strategy.extended().broadcast_to(value, destinations);
}

DistributedValue reduce(Strategy& strategy, VariableAggregation aggregation,
                        const DistributedValue& value, const Destinations& destinations) {
  return strategy.extended().reduce_to(reduce_op_of(aggregation), value, destinations);
}

std::vector<DistributedValue> batch_reduce(Strategy& strategy, VariableAggregation aggregation,
                                           const std::vector<ReduceRequest>& requests) {
  return strategy.extended().batch_reduce_to(reduce_op_of(aggregation), requests);
}

Tensor read_var(Strategy& strategy, const Variable& variable) {
  return strategy.extended().read_var(variable);
}

VariableCreatorScope colocate_vars_with(Strategy& strategy, const Variable& variable) {
  return strategy.extended().colocate_vars_with(variable);
}

std::vector<std::string> worker_devices(const Strategy& strategy) {
  return strategy.extended().worker_devices();
}

std::vector<std::string> parameter_devices(const Strategy& strategy) {
  return strategy.extended().parameter_devices();
}

VariableCreatorScope tower_local_var_scope(VariableAggregation aggregation) {
  return VariableCreatorScope([aggregation](const NextCreator& next, VariableRequest request) {
    request.options.synchronization = VariableSynchronization::OnRead;
    request.options.aggregation = aggregation;
    return next(request);
  });
}

}  // namespace cohort::legacy
