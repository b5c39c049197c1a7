#pragma once

#include <span>
#include <string_view>

#include "cohort/values.h"

// What reductions and gathers ask of the values that meet. Each throws an Error that begins with
// "[what]" and names the components, by replica.
namespace cohort::internal {

// Numbers of one dtype and one shape. Rows have the shape of the tensor that they are rows of.
void check_reducible(std::string_view what, std::span<const Gradient> components);

// Dense values of one dtype, with an axis that makes sense and equal sizes besides it.
void check_gatherable(std::string_view what, std::span<const Gradient> components, int axis);

}  // namespace cohort::internal
