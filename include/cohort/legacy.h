#pragma once

#include "cohort/strategy.h"

// The names of the first TensorFlow strategies, for programs that use them: a tower is a replica.
// New programs use cohort/strategy.h.
//
//   legacy::call_for_each_tower(strategy, [&] { return legacy::get_tower_context()->tower_id(); });
namespace cohort::legacy {

using DistributionStrategy = Strategy;
template <typename T>
using PerDevice = PerReplica<T>;

// TowerContext is a ReplicaContext with the old names.
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

// Returns nullopt in a cross-replica context.
std::optional<TowerContext> get_tower_context();

// Strategy::run().
template <typename F, typename... Args>
auto call_for_each_tower(Strategy& strategy, F&& f, const Args&... args) {
  return strategy.run(std::forward<F>(f), args...);
}
// Strategy::local_results().
template <typename T>
auto unwrap(const Strategy& strategy, const T& value) {
  return strategy.local_results(value);
}
// Returns a tensor that exists once all of the values exist.
Tensor group(const std::vector<Tensor>& values);

}  // namespace cohort::legacy
