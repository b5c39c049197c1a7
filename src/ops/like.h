#pragma once

#include "cohort/ops.h"

// Gradients often need "what I have, in the shape of that": ops that take the shape from a tensor,
// so that they also work in graphs where it is not known yet.
namespace cohort::internal {

// `x` summed over the dimensions along which `like` was broadcast to get x's shape.
Tensor sum_like(const Tensor& x, const Tensor& like);
// `x`, as broadcast to the shape of `like`.
Tensor broadcast_like(const Tensor& x, const Tensor& like);
// `x` with the elements in the shape of `like`.
Tensor reshape_like(const Tensor& x, const Tensor& like);

}  // namespace cohort::internal
