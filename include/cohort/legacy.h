#pragma once

#include <any>
#include <map>

#include "cohort/multi_worker.h"

// The names of the first versions of TensorFlow's strategies, for programs that use them: a tower
// is a replica. Each name stands for one or two of <cohort/strategy.h>, which new programs use.
//
//   legacy::call_for_each_tower(strategy, [&] { return legacy::get_tower_context()->tower_id(); });
namespace cohort::legacy {

using DistributionStrategy = Strategy;
template <typename T>
using PerDevice = PerReplica<T>;
using CrossTowerOps = CrossDeviceOps;
using ReductionToOneDeviceCrossDeviceOps = ReductionToOneDevice;
using CollectiveCommunication = CommunicationImplementation;
using CollectiveAllReduceStrategy = MultiWorkerMirroredStrategy;

// Accepts "nccl" and "hierarchical_copy". Throws InvalidArgument for any other algorithm.
std::shared_ptr<CrossDeviceOps> all_reduce_cross_device_ops(std::string_view algorithm = "nccl",
                                                            int num_packs = 1);
// A timeout of 0 means no limit. Throws InvalidArgument for a timeout that is negative or not a
// number.
CommunicationOptions collective_hints(int64_t bytes_per_pack = 0,
                                      std::optional<double> timeout_seconds = std::nullopt);

// --- Contexts

bool has_distribution_strategy();
Strategy& get_distribution_strategy();

// TowerContext is a replica context with the old names.
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

// Returns nullopt in a cross-tower context.
std::optional<TowerContext> get_tower_context();
// Returns nullptr inside a tower.
Strategy* get_cross_tower_context();

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
// Returns a tensor that exists once all of the values exist.
Tensor group(const std::vector<Tensor>& values);
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
// The iterator is one pipeline for all towers. Throws InvalidArgument for another mode.
void check_replication_mode(InputReplicationMode mode);
DistributedIterator make_dataset_iterator(
    Strategy& strategy, const data::Dataset& dataset,
    InputReplicationMode mode = InputReplicationMode::PerWorker);
template <typename InputFunction>
DistributedIterator make_input_fn_iterator(
    Strategy& strategy, const InputFunction& make,
    InputReplicationMode mode = InputReplicationMode::PerWorker) {
  check_replication_mode(mode);
  return strategy.distribute_datasets_from_function(make).iterator();
}

// MultiStepContext keeps the outputs of a function that runs several steps.
class MultiStepContext {
 public:
  explicit MultiStepContext(Strategy& strategy) : strategy_(strategy) {}

  // Sets the value of the last step under this name, reduced by `op`. Inside a replica, all
  // replicas must call it and give an `op` (InvalidArgument).
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

// Calls `f(context, element)` for the next `iterations` elements. `initial` has the values of
// outputs that no step sets.
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

// Without destinations, broadcasts to all devices that compute.
DistributedValue broadcast(Strategy& strategy, const Tensor& value);
DistributedValue broadcast(Strategy& strategy, const Tensor& value,
                           const Destinations& destinations);
// Reduces by Sum or Mean. Throws InvalidArgument for any other aggregation.
DistributedValue reduce(Strategy& strategy, VariableAggregation aggregation,
                        const DistributedValue& value, const Destinations& destinations);
std::vector<DistributedValue> batch_reduce(Strategy& strategy, VariableAggregation aggregation,
                                           const std::vector<ReduceRequest>& requests);
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
Tensor read_var(Strategy& strategy, const Variable& variable);
VariableCreatorScope colocate_vars_with(Strategy& strategy, const Variable& variable);
std::vector<std::string> worker_devices(const Strategy& strategy);
std::vector<std::string> parameter_devices(const Strategy& strategy);

// While the scope exists, new variables keep one value for each tower. A read outside towers
// combines the values by `aggregation`.
VariableCreatorScope tower_local_var_scope(VariableAggregation aggregation);

}  // namespace cohort::legacy
