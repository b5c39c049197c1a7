#pragma once

// Definitions of the coordinator's templates. Not for inclusion by users.

#include "cohort/coordinator.h"

namespace cohort {
namespace internal {

template <typename T>
inline constexpr bool is_traced_function = false;
template <typename F>
inline constexpr bool is_traced_function<Function<F>> = true;

[[noreturn]] void throw_no_values();

// A leaf as the function on the worker gets it.
struct WorkerLeaf {
  RemoteArguments& remote;

  template <typename T>
  auto operator()(const T& leaf) const {
    if constexpr (std::same_as<T, PerWorkerIterator>) {
      return leaf.stand_in();
    } else if constexpr (is_remote_value<T>) {
      return leaf.with_tensors(remote.add(leaf.result()));
    } else if constexpr (is_per_worker_values<T>) {
      RemoteArguments::Results results;
      for (const auto& value : leaf) results.push_back(value.result());
      if (results.empty()) throw_no_values();
      return leaf[0].with_tensors(remote.add_per_worker(std::move(results)));
    } else {
      return leaf;
    }
  }
};
template <typename T>
using WorkerArgument = std::decay_t<MappedLeaves<WorkerLeaf, T>>;

}  // namespace internal

template <typename F, typename... Args>
auto ClusterCoordinator::schedule_at(std::optional<int> worker, const F& f, const Args&... args) {
  if constexpr (internal::is_traced_function<F>) {
    using Result =
        std::decay_t<std::invoke_result_t<const F&, const internal::WorkerArgument<Args>&...>>;
    std::shared_ptr<const void> structure;
    internal::RemoteArguments remote;
    auto result = enqueue(
        worker,
        [&] { return f.trace(internal::map_leaves(internal::WorkerLeaf{remote}, args)...); },
        remote, structure);
    return RemoteValue<Result>(std::move(result), std::move(structure));
  } else {
    return schedule_at(worker, function(f), args...);
  }
}

template <typename F, typename... Args>
auto ClusterCoordinator::run_on_each_worker(const F& f, const Args&... args) {
  using Value = typename decltype(schedule_on(0, f, args...))::Value;
  std::vector<RemoteValue<Value>> values;
  for (int worker = 0; worker < num_workers(); ++worker) {
    values.push_back(schedule_on(worker, f, args...));
  }
  return PerWorkerValues<Value>(std::move(values));
}

}  // namespace cohort
