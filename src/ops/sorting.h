#pragma once

#include "cohort/tensor.h"

// Elements chosen by number along one axis, each row of the axis by numbers of its own: how values
// follow an ordering, and gradients come back. `indices` has as many dimensions as the tensor.
namespace cohort::internal {

// Element i of a row of the result is element indices[i] of that row of x.
Tensor take_along(const Tensor& x, const Tensor& indices, int axis);
// Zeros like `like`; element i of a row of x is added to element indices[i] of that row.
Tensor add_along(const Tensor& x, const Tensor& indices, const Tensor& like, int axis);

}  // namespace cohort::internal
