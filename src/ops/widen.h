#pragma once

#include <ATen/Functions.h>

namespace cohort::internal {

// The kernel library lacks many kernels for the 16-bit floats on a CPU; such ops compute in
// float32.
inline bool is_narrow(const at::Tensor& x) {
  return x.scalar_type() == at::kHalf || x.scalar_type() == at::kBFloat16;
}

// `x` in a dtype that every kernel has: itself unless it is a 16-bit float.
inline at::Tensor widened(const at::Tensor& x) { return is_narrow(x) ? x.to(at::kFloat) : x; }

// `result`, computed from widened(x), in the dtype of `x`.
inline at::Tensor narrowed(at::Tensor result, const at::Tensor& x) {
  return is_narrow(x) ? result.to(x.scalar_type()) : result;
}

}  // namespace cohort::internal
