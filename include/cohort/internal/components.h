#pragma once

// How values of several replicas are taken apart. Not for inclusion by users.

#include <optional>
#include <type_traits>
#include <utility>

#include "cohort/internal/nest.h"

namespace cohort::internal {

// The component of a distributed value that code on this thread refers to: that of its replica, or
// of the copy being updated. nullopt if the thread is in neither.
std::optional<size_t> current_component();
[[noreturn]] void throw_not_one_value(size_t components);
[[noreturn]] void throw_no_component(size_t index, size_t components);

// Structures whose type fixes the number of their parts.
template <typename T>
concept HasParts = kIsTuple<T> || HasFields<T>;
template <typename T>
decltype(auto) parts_of_structure(T& value) {
  if constexpr (kIsTuple<T>) {
    return (value);
  } else {
    return Fields<T>::of(value);
  }
}
template <HasParts T>
using PartsOf = std::remove_reference_t<decltype(parts_of_structure(std::declval<T&>()))>;
template <size_t I, HasParts T>
using PartOf = std::remove_cvref_t<std::tuple_element_t<I, PartsOf<T>>>;

}  // namespace cohort::internal
