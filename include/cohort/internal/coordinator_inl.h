#pragma once

// Definitions of the coordinator's templates. Not for inclusion by users.

#include "cohort/coordinator.h"

namespace cohort {
namespace internal {

template <typename T>
inline constexpr bool is_per_worker_values = false;
template <typename T>
inline constexpr bool is_per_worker_values<PerWorkerValues<T>> = true;
template <typename T>
inline constexpr bool is_remote_value = false;
template <typename T>
inline constexpr bool is_remote_value<RemoteValue<T>> = true;

struct FetchLeaf {
  template <typename T>
  auto operator()(const T& leaf) const {
    if constexpr (is_remote_value<T>) {
      return leaf.fetch();
    } else if constexpr (is_per_worker_values<T>) {
      std::vector<typename T::Value> all;
      for (const auto& value : leaf) all.push_back(value.fetch());
      return all;
    } else {
      return leaf;
    }
  }
};

template <typename T>
inline constexpr bool is_traced_function = false;
template <typename F>
inline constexpr bool is_traced_function<Function<F>> = true;

[[noreturn]] void throw_no_values();

// Converts a leaf to what the function on the worker gets.
struct WorkerLeaf {
  RemoteArguments& remote;

  template <typename T>
  auto operator()(const T& leaf) const {
    if constexpr (std::same_as<T, PerWorkerIterator>) {
      return Access::stand_in(leaf);
    } else if constexpr (is_remote_value<T>) {
      return Access::with_tensors(leaf, remote.add(Access::result(leaf)));
    } else if constexpr (is_per_worker_values<T>) {
      RemoteArguments::Results results;
      for (const auto& value : leaf) results.push_back(Access::result(value));
      if (results.empty()) throw_no_values();
      return Access::with_tensors(leaf[0], remote.add_per_worker(std::move(results)));
    } else {
      return leaf;
    }
  }
};
template <typename T>
using WorkerArgument = std::decay_t<MappedLeaves<WorkerLeaf, T>>;

template <typename T>
inline constexpr bool is_local_dataset =
    std::same_as<T, data::Dataset> || std::same_as<T, DistributedDataset>;

// Traces a function and queues a call of it. Sets `structure` to that of the result.
std::shared_ptr<RemoteResult> enqueue(ClusterCoordinatorState& state, std::optional<int> worker,
                                      const std::function<TracedCall()>& trace,
                                      const RemoteArguments& remote,
                                      std::shared_ptr<const void>& structure);
PerWorkerDataset make_per_worker(int num_workers, const std::function<PerWorkerSpec()>& make);

}  // namespace internal

template <typename T>
T RemoteValue<T>::fetch() const {
  const std::vector<Tensor>& tensors = internal::tensors_of(*result_);
  if constexpr (!std::is_void_v<T>) return with_tensors(tensors);
}

template <typename T>
auto RemoteValue<T>::with_tensors(const std::vector<Tensor>& tensors) const {
  size_t next = 0;
  return internal::replace_tensors(*static_cast<const T*>(structure_.get()),
                                   internal::span_of(tensors), next);
}

template <typename T>
auto ClusterCoordinator::fetch(const T& values) const {
  return internal::map_leaves(internal::FetchLeaf(), values);
}

template <std::invocable F>
PerWorkerDataset ClusterCoordinator::create_per_worker_dataset(const F& make) {
  return internal::make_per_worker(num_workers(),
                                   [make] { return internal::PerWorkerSpec(make()); });
}

template <typename F, typename... Args>
auto ClusterCoordinator::schedule_at(std::optional<int> worker, const F& f, const Args&... args) {
  if constexpr (!internal::is_traced_function<F>) {
    return schedule_at(worker, function(f), args...);
  } else if constexpr (internal::Accepts<const F&, const internal::WorkerArgument<Args>&...>) {
    using Result =
        std::decay_t<std::invoke_result_t<const F&, const internal::WorkerArgument<Args>&...>>;
    std::shared_ptr<const void> structure;
    internal::RemoteArguments remote;
    auto result = internal::enqueue(
        *state_, worker,
        [&] {
          return internal::Access::trace(
              f, internal::map_leaves(internal::WorkerLeaf{remote}, args)...);
        },
        remote, structure);
    return internal::Access::make<RemoteValue<Result>>(std::move(result), std::move(structure));
  } else {
    constexpr bool per_worker = (std::same_as<Args, PerWorkerDataset> || ...);
    constexpr bool local = (internal::is_local_dataset<Args> || ...);
    static_assert(!per_worker,
                  "schedule(f, arguments...): a dataset is not an argument; pass "
                  "per_worker_dataset.iterator()");
    static_assert(per_worker || !local,
                  "schedule(f, arguments...): a dataset is not an argument; pass "
                  "coordinator.create_per_worker_dataset(dataset).iterator()");
    static_assert(per_worker || local,
                  "schedule(f, arguments...): the function cannot be called with these arguments; "
                  "a RemoteValue<T> arrives as a T, what differs from worker to worker as that of "
                  "the worker, everything else as it is");
  }
}

template <typename F, typename... Args>
auto ClusterCoordinator::schedule(const F& f, const Args&... args) {
  return schedule_at(std::nullopt, f, args...);
}

template <typename F, typename... Args>
auto ClusterCoordinator::schedule_on(int worker, const F& f, const Args&... args) {
  return schedule_at(worker, f, args...);
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
