#pragma once

#include "ops/op.h"

namespace cohort::internal {

// The gradient of a normalisation's gradient.
//
// y = scale * n + offset with n = (x - mean) * r, r = 1 / sqrt(variance + epsilon), mean and
// variance over some axes of x. Its gradient op takes (g, x, scale, mean, r) and gives those of x,
// scale and offset; here, what follows for g, x and scale from the gradients of these three. Mean
// and r are functions of x; their share is in x's.
struct NormalizeCall {
  Tensor g, x, scale, mean, r;  // all of them broadcast against x
  std::vector<int64_t> axes;    // the axes of the mean and the variance
};
struct NormalizeGradients {
  Tensor g, x, scale;  // all in the shape of x
};
NormalizeGradients second_order(const NormalizeCall& call, const Tensor& of_x,
                                const Tensor& of_scale, const Tensor& of_offset);

}  // namespace cohort::internal
