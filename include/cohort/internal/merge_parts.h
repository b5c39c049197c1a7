#pragma once

// What replicas bring to merge_call() and take away. Not for inclusion by users: include
// cohort/strategy.h.

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

// What one replica brings to a merge and takes away.
template <typename Result, typename... Args>
struct MergePart {
  std::tuple<const Args*...> arguments;
  std::optional<Result> result = std::nullopt;
};
template <typename... Args>
struct MergePart<void, Args...> {
  std::tuple<const Args*...> arguments;
};

template <size_t I, typename Part>
auto regrouped_argument(std::span<void* const> parts) {
  using Arg = std::remove_cvref_t<decltype(*std::get<I>(std::declval<const Part&>().arguments))>;
  std::vector<const Arg*> all;
  for (void* part : parts) all.push_back(std::get<I>(static_cast<Part*>(part)->arguments));
  return regroup(std::span<const Arg* const>(all));
}

template <typename Part, typename Merge, size_t... I>
decltype(auto) call_merge(const Merge& merge, Strategy& strategy,
                          [[maybe_unused]] std::span<void* const> parts,
                          std::index_sequence<I...>) {
  return std::invoke(merge, strategy, regrouped_argument<I, Part>(parts)...);
}

template <typename Merge, typename... Args>
using MergeResult = std::decay_t<std::invoke_result_t<const Merge&, Strategy&, Regrouped<Args>...>>;

}  // namespace internal
}  // namespace cohort
