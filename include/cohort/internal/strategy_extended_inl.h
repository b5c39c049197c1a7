#pragma once

// Definitions of the templates of StrategyExtended. Not for inclusion by users: include
// cohort/strategy_extended.h.

#include <functional>
#include <type_traits>

#include "cohort/internal/accepts.h"
#include "cohort/strategy_extended.h"

namespace cohort {
namespace internal {

// The context of the replica of this strategy that the thread is in; null outside replicas.
ReplicaContext* own_replica(const StrategyExtended& extended);
// Calls `change(k)` for each destination, on its device and in update context k.
DistributedValue update_places(StrategyExtended& extended, const Destinations& where,
                               const std::function<Tensor(size_t)>& change);

}  // namespace internal

template <typename F, typename... Args>
DistributedValue StrategyExtended::update(const Variable& variable, const F& change,
                                          const Args&... args) {
  static_assert(internal::Accepts<const F&, Variable, internal::Selected<Args>...>,
                "update(variable, change, arguments...): the function cannot be called with a "
                "Variable and these arguments; a PerReplica<T> arrives as the replica's T, "
                "everything else as it is");
  if (ReplicaContext* replica = internal::own_replica(*this)) {
    return replica->merge_call(
        [&](Strategy& merged, const auto&... all) {
          return merged.extended().update(variable, change, all...);
        },
        args...);
  }
  return update_copies(variable, [&](const Variable& copy, size_t index) -> Tensor {
    using Result = std::invoke_result_t<const F&, Variable, internal::Selected<Args>...>;
    if constexpr (std::is_void_v<Result>) {
      std::invoke(change, copy, internal::select(index, args)...);
      return {};
    } else {
      return static_cast<Tensor>(std::invoke(change, copy, internal::select(index, args)...));
    }
  });
}

template <typename F, typename... Args>
DistributedValue StrategyExtended::update_non_slot(const Destinations& where, const F& change,
                                                   const Args&... args) {
  static_assert(internal::Accepts<const F&, internal::Selected<Args>...>,
                "update_non_slot(where, change, arguments...): the function cannot be called with "
                "these arguments; a PerReplica<T> arrives as the replica's T, everything else as "
                "it is");
  return internal::update_places(*this, where, [&](size_t index) -> Tensor {
    using Result = std::invoke_result_t<const F&, internal::Selected<Args>...>;
    if constexpr (std::is_void_v<Result>) {
      std::invoke(change, internal::select(index, args)...);
      return {};
    } else {
      return static_cast<Tensor>(std::invoke(change, internal::select(index, args)...));
    }
  });
}

}  // namespace cohort
