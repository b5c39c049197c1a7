#pragma once

// What may be written to a variable. Not for inclusion by users: include cohort/variable.h.

#include <concepts>
#include <string>

#include "cohort/dtype.h"

namespace cohort::internal {

// Whether values of type T may have a part for each copy of a variable. See <cohort/values.h>.
template <typename T>
inline constexpr bool is_distributed = false;
template <typename T>
concept Distributed = is_distributed<T>;
enum class Write { Assign, AssignAdd, AssignSub };
// Number is a C++ type of numbers. A value of another type is written as a tensor.
template <typename T>
concept Number = TensorElement<T> && !std::same_as<T, std::string>;
template <typename T>
concept Written = Number<T> || Distributed<T>;

}  // namespace cohort::internal
