#pragma once

// Definitions of the templates of Variable. Not for inclusion by users: include cohort/variable.h.

#include "cohort/variable.h"

namespace cohort {

namespace internal {
template <>
inline constexpr bool is_distributed<Variable> = true;
// Writes the copies of `value` to the copies of `target`, if both are variables of a strategy.
Tensor write_parts(const Variable& target, Write write, const Variable& value, Site site);
}  // namespace internal

template <typename T>
Tensor Variable::write(internal::Write how, const T& value, Site site) {
  if constexpr (internal::Number<T>) {
    return write_number(how, value, site);
  } else {
    return write_parts(*this, how, value, site);
  }
}

template <internal::Written T>
Tensor Variable::assign(const T& value, Site site) {
  return write(internal::Write::Assign, value, site);
}

template <internal::Written T>
Tensor Variable::assign_add(const T& delta, Site site) {
  return write(internal::Write::AssignAdd, delta, site);
}

template <internal::Written T>
Tensor Variable::assign_sub(const T& delta, Site site) {
  return write(internal::Write::AssignSub, delta, site);
}

}  // namespace cohort
