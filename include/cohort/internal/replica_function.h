#pragma once

// Calls of a replica's function, and checks of the results. Not for inclusion by users: include
// cohort/strategy.h.

#include <functional>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "cohort/internal/accepts.h"
#include "cohort/internal/data_function.h"
#include "cohort/internal/nest.h"
#include "cohort/internal/values_inl.h"

namespace cohort::internal {

// Calls `f` with the parts of the element for the parameters that `rest` leaves.
template <typename F, typename... Rest>
decltype(auto) call_spread(F& f, const data::Element& element, const Rest&... rest) {
  if constexpr (data::internal::HasSignature<F>) {
    using Args = typename data::internal::Signature<F>::Args;
    static_assert(std::tuple_size_v<Args> > sizeof...(Rest),
                  "the function must take the dataset's element and, after it, the other arguments "
                  "of the call");
    constexpr size_t kParts = std::tuple_size_v<Args> - sizeof...(Rest);
    const data::internal::Arguments from(element, kParts);
    return [&]<size_t... I>(std::index_sequence<I...>)->decltype(auto) {
      return f(data::internal::argument<std::tuple_element_t<I, Args>>(from, I)..., rest...);
    }
    (std::make_index_sequence<kParts>());
  } else {
    auto bound = [&](const auto&... parts) -> decltype(f(parts..., rest...)) {
      return f(parts..., rest...);
    };
    return data::internal::call_with(bound, element);
  }
}

template <typename F>
decltype(auto) call_unpacked(F& f) {
  return std::invoke(f);
}
template <typename F, typename First, typename... Rest>
decltype(auto) call_unpacked(F& f, const First& first, const Rest&... rest) {
  if constexpr (!std::same_as<First, data::Element>) {
    return std::invoke(f, first, rest...);
  } else if constexpr (sizeof...(Rest) == 0) {
    return data::internal::call_with(f, first);
  } else {
    return call_spread(f, first, rest...);
  }
}

// Whether the arguments fit. The parts of an element are checked by the call itself.
template <typename F, typename... Args>
inline constexpr bool kFits = Accepts<F&, const Args&...>;
template <typename F, typename... Rest>
inline constexpr bool kFits<F, data::Element, Rest...> = true;
template <typename F, typename... Args>
inline constexpr bool kRunFits = kFits<F, std::remove_cvref_t<Selected<Args>>...>;

template <typename F, typename... Args>
using ReplicaResult = std::decay_t<decltype(call_unpacked(
    std::declval<F&>(), std::declval<const std::remove_cvref_t<Selected<Args>>&>()...))>;

template <typename T>
std::vector<const T*> pointers_to(const std::vector<std::optional<T>>& results) {
  std::vector<const T*> all;
  for (const std::optional<T>& result : results) all.push_back(&*result);
  return all;
}

// Throws InvalidArgument if the replicas' structures differ in lengths or keys.
template <typename T>
void check_same_structures(const std::vector<std::optional<T>>& results) {
  if constexpr (!Nest<T>::kLeaf) {
    const std::vector<const T*> all = pointers_to(results);
    check_same_structure(std::span<const T* const>(all));
  }
}

}  // namespace cohort::internal
