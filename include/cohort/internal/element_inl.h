#pragma once

// Definitions of the templates of data::Element. Not for inclusion by users: include
// cohort/element.h.

#include "cohort/element.h"

namespace cohort::data {

namespace internal {
// Returns the part of replica `index` if the element was dealt out to replicas, and the whole
// element otherwise. Throws InvalidArgument if it was dealt out to fewer replicas.
Element element_of_replica(const Element& element, size_t index);
}  // namespace internal

template <size_t N>
std::array<Tensor, N> Element::unpack() const {
  check_tensors(N);
  std::array<Tensor, N> parts;
  for (size_t i = 0; i < N; ++i) parts[i] = tensors_[i];
  return parts;
}

template <size_t I>
Tensor Element::get() const {
  check_tensors(2);
  return tensors_[I];
}

}  // namespace cohort::data

template <>
struct std::tuple_size<cohort::data::Element> : std::integral_constant<size_t, 2> {};
template <size_t I>
struct std::tuple_element<I, cohort::data::Element> {
  using type = cohort::Tensor;
};
