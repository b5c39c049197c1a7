#pragma once

// The arguments and results of merge_call(). Not for inclusion by users: include cohort/strategy.h.

#include <concepts>
#include <functional>
#include <optional>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "cohort/internal/values_inl.h"

namespace cohort {

class Strategy;

namespace internal {

// One replica's arguments of a merge, and its result.
template <typename Result, typename... Args>
struct MergePart {
  std::tuple<const Args*...> arguments;
  std::optional<Result> result = std::nullopt;
};
template <typename... Args>
struct MergePart<void, Args...> {
  std::tuple<const Args*...> arguments;
};

// Regroups as RegroupLeaf does, except that the replicas may refer to different variables.
struct RegroupVariablesApart {
  template <typename T>
  auto operator()(std::span<const T* const> leaves) const {
    if constexpr (std::same_as<T, Variable>) {
      std::vector<std::optional<Variable>> all;
      for (size_t r = 0; r < leaves.size(); ++r) all.emplace_back(whole_of_copy(*leaves[r], r));
      const bool collapsed = leaves.size() == 1 || all_same(all);
      return PerReplica<Variable>(std::move(all), collapsed);
    } else {
      return RegroupLeaf{}(leaves);
    }
  }
};

// How a merge takes its arguments. A variable is passed as the one that all replicas refer to if
// the merge can be called with that variable, otherwise as PerReplica<Variable>.
template <typename Merge, typename... Args>
using RegroupFor =
    std::conditional_t<std::is_invocable_v<const Merge&, Strategy&, Regrouped<Args>...>,
                       RegroupLeaf, RegroupVariablesApart>;

template <size_t I, typename Part, typename Regroup>
auto regrouped_argument(std::span<void* const> parts) {
  using Arg = std::remove_cvref_t<decltype(*std::get<I>(std::declval<const Part&>().arguments))>;
  std::vector<const Arg*> all;
  for (void* part : parts) all.push_back(std::get<I>(static_cast<Part*>(part)->arguments));
  return zip_leaves(Regroup{}, std::span<const Arg* const>(all));
}

template <typename Part, typename Regroup, typename Merge, size_t... I>
decltype(auto) call_merge(const Merge& merge, Strategy& strategy,
                          [[maybe_unused]] std::span<void* const> parts,
                          std::index_sequence<I...>) {
  return std::invoke(merge, strategy, regrouped_argument<I, Part, Regroup>(parts)...);
}

template <typename Merge, typename... Args>
inline constexpr bool kMergeFits =
    std::is_invocable_v<const Merge&, Strategy&, ZippedLeaves<RegroupFor<Merge, Args...>, Args>...>;

template <typename Merge, typename... Args>
using MergeResult =
    std::decay_t<std::invoke_result_t<const Merge&, Strategy&,
                                      ZippedLeaves<RegroupFor<Merge, Args...>, Args>...>>;

}  // namespace internal
}  // namespace cohort
