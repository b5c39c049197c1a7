#pragma once

// Definitions of the coordinator's templates. Not for inclusion by users.

#include "cohort/coordinator.h"

namespace cohort {
namespace internal {

template <typename T>
inline constexpr bool is_traced_function = false;
template <typename F>
inline constexpr bool is_traced_function<Function<F>> = true;

[[noreturn]] void throw_remote_argument();

// A leaf as the function on the worker gets it.
struct WorkerLeaf {
  template <typename T>
  auto operator()(const T& leaf) const {
    if constexpr (std::same_as<T, PerWorkerIterator>) {
      return leaf.stand_in();
    } else if constexpr (is_remote_value<T>) {
      throw_remote_argument();
      return leaf.fetch();
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
    auto result = enqueue(
        worker, [&] { return f.trace(internal::map_leaves(internal::WorkerLeaf(), args)...); },
        structure);
    return RemoteValue<Result>(std::move(result), std::move(structure));
  } else {
    return schedule_at(worker, function(f), args...);
  }
}

}  // namespace cohort
