#pragma once

#include <any>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cohort/multi_worker.h"
#include "cohort/ops.h"
#include "cohort/strategy.h"

// The first names of what <cohort/strategy.h> has, for programs written with them: a tower is a
// replica. Everything here is a line over the new names; new programs use those.
namespace cohort::legacy {

using DistributionStrategy = Strategy;
template <typename T>
using PerDevice = PerReplica<T>;
using CrossTowerOps = CrossDeviceOps;
using ReductionToOneDeviceCrossDeviceOps = ReductionToOneDevice;
using CollectiveCommunication = CommunicationImplementation;
using CollectiveAllReduceStrategy = MultiWorkerMirroredStrategy;

// "nccl" or "hierarchical_copy". Throws InvalidArgument for other algorithms.
std::shared_ptr<CrossDeviceOps> all_reduce_cross_device_ops(std::string_view algorithm = "nccl",
                                                            int num_packs = 1);
inline CommunicationOptions collective_hints(int64_t bytes_per_pack = 0,
                                             std::optional<double> timeout_seconds = std::nullopt) {
  return {.bytes_per_pack = bytes_per_pack, .timeout_seconds = timeout_seconds};
}

// --- Contexts

inline bool has_distribution_strategy() { return has_strategy(); }
inline Strategy& get_distribution_strategy() { return get_strategy(); }

// A replica context under its old names.
class TowerContext {
 public:
  explicit TowerContext(ReplicaContext& context) : context_(context) {}

  Strategy& distribution_strategy() const { return context_.strategy(); }
  int tower_id() const { return context_.replica_id_in_sync_group(); }
  int num_towers() const { return context_.num_replicas_in_sync(); }
  bool is_single_tower() const { return num_towers() == 1; }
  std::string device() const { return context_.devices().front(); }
  template <typename Merge, typename... Args>
  auto merge_call(const Merge& merge, const Args&... args) const {
    return context_.merge_call(merge, args...);
  }

 private:
  ReplicaContext& context_;
};

// Nothing in a cross-tower context.
inline std::optional<TowerContext> get_tower_context() {
  ReplicaContext* context = get_replica_context();
  return context != nullptr ? std::optional<TowerContext>(*context) : std::nullopt;
}
// Null inside a tower.
inline Strategy* get_cross_tower_context() {
  return in_cross_replica_context() ? &get_strategy() : nullptr;
}

// --- Running

template <typename F, typename... Args>
auto call_for_each_tower(Strategy& strategy, F&& f, const Args&... args) {
  return strategy.run(std::forward<F>(f), args...);
}
template <typename F, typename... Args>
auto experimental_run_v2(Strategy& strategy, F&& f, const Args&... args) {
  return strategy.run(std::forward<F>(f), args...);
}
template <typename F>
auto experimental_run(Strategy& strategy, F&& f, DistributedIterator& iterator) {
  return strategy.run(std::forward<F>(f), iterator.next());
}

template <typename T>
auto unwrap(const Strategy& strategy, const T& value) {
  return strategy.local_results(value);
}
// Something that exists once all of the values do.
inline Tensor group(const std::vector<Tensor>& values) { return cohort::group(values); }
template <typename T>
Tensor group(const Strategy& strategy, const T& value) {
  const auto parts = strategy.local_results(value);
  return cohort::group(std::vector<Tensor>(parts.begin(), parts.end()));
}

// --- Input

template <typename DatasetFunction>
DistributedDataset distribute_dataset(Strategy& strategy, const DatasetFunction& make) {
  return strategy.distribute_dataset(make());
}
// One pipeline for all towers; another mode throws InvalidArgument.
void check_replication_mode(InputReplicationMode mode);
inline DistributedIterator make_dataset_iterator(
    Strategy& strategy, const data::Dataset& dataset,
    InputReplicationMode mode = InputReplicationMode::PerWorker) {
  check_replication_mode(mode);
  return strategy.distribute_dataset(dataset).iterator();
}
template <typename InputFunction>
DistributedIterator make_input_fn_iterator(
    Strategy& strategy, const InputFunction& make,
    InputReplicationMode mode = InputReplicationMode::PerWorker) {
  check_replication_mode(mode);
  return strategy.distribute_datasets_from_function(make).iterator();
}

// What a function that runs several steps keeps of them.
class MultiStepContext {
 public:
  explicit MultiStepContext(Strategy& strategy) : strategy_(strategy) {}

  // The last step's value of that name, reduced by `op`. Inside a replica all replicas must call
  // it, and `op` is a must (InvalidArgument).
  void set_last_step_output(const std::string& name, const DistributedValue& value,
                            std::optional<ReduceOp> op = std::nullopt);
  void set_non_tensor_output(const std::string& name, std::any value) {
    others_[name] = std::move(value);
  }
  const std::map<std::string, DistributedValue>& last_step_outputs() const { return outputs_; }
  const std::map<std::string, std::any>& non_tensor_outputs() const { return others_; }

 private:
  Strategy& strategy_;
  std::map<std::string, DistributedValue> outputs_;
  std::map<std::string, std::any> others_;
};

// Calls `f(context, element)` for the next `iterations` elements. `initial` is what outputs are
// that no step sets.
template <typename F>
MultiStepContext experimental_run_steps_on_iterator(
    Strategy& strategy, const F& f, DistributedIterator& iterator, int iterations = 1,
    const std::map<std::string, Tensor>& initial = {}) {
  const StrategyScope scope(strategy);
  MultiStepContext context(strategy);
  for (const auto& [name, value] : initial) context.set_last_step_output(name, value);
  for (int i = 0; i < iterations; ++i) f(context, iterator.next());
  return context;
}

// --- Values and variables

// On all devices that compute, when no destination is given.
inline DistributedValue broadcast(Strategy& strategy, const Tensor& value) {
  return strategy.extended().broadcast_to(
      value, Destinations::of_devices(strategy.extended().worker_devices()));
}
inline DistributedValue broadcast(Strategy& strategy, const Tensor& value,
                                  const Destinations& destinations) {
  return strategy.extended().broadcast_to(value, destinations);
}
// Sum and Mean; other aggregations throw InvalidArgument.
inline DistributedValue reduce(Strategy& strategy, VariableAggregation aggregation,
                               const DistributedValue& value, const Destinations& destinations) {
  return strategy.extended().reduce_to(reduce_op_of(aggregation), value, destinations);
}
inline std::vector<DistributedValue> batch_reduce(Strategy& strategy,
                                                  VariableAggregation aggregation,
                                                  const std::vector<ReduceRequest>& requests) {
  return strategy.extended().batch_reduce_to(reduce_op_of(aggregation), requests);
}
template <typename F, typename... Args>
DistributedValue update(Strategy& strategy, const Variable& variable, const F& change,
                        const Args&... args) {
  return strategy.extended().update(variable, change, args...);
}
template <typename F, typename... Args>
DistributedValue update_non_slot(Strategy& strategy, const Destinations& where, const F& change,
                                 const Args&... args) {
  return strategy.extended().update_non_slot(where, change, args...);
}
inline Tensor read_var(Strategy& strategy, const Variable& variable) {
  return strategy.extended().read_var(variable);
}
inline VariableCreatorScope colocate_vars_with(Strategy& strategy, const Variable& variable) {
  return strategy.extended().colocate_vars_with(variable);
}
inline std::vector<std::string> worker_devices(const Strategy& strategy) {
  return strategy.extended().worker_devices();
}
inline std::vector<std::string> parameter_devices(const Strategy& strategy) {
  return strategy.extended().parameter_devices();
}

// While it lives, variables keep one value per tower, which `aggregation` makes into one when read
// outside towers.
inline VariableCreatorScope tower_local_var_scope(VariableAggregation aggregation) {
  return VariableCreatorScope([aggregation](const NextCreator& next, VariableRequest request) {
    request.options.synchronization = VariableSynchronization::OnRead;
    request.options.aggregation = aggregation;
    return next(request);
  });
}

}  // namespace cohort::legacy
