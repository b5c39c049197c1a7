#pragma once

// What the files that define ops include: the kernel library's tensors in and out of a Kernel.

#include <ATen/Functions.h>

#include "ops/infer.h"
#include "ops/op.h"
#include "tensor/aten.h"

namespace cohort::internal {

inline const at::Tensor& in(const Kernel& kernel, size_t i = 0) { return aten(kernel.inputs[i]); }
inline void set(Kernel& kernel, at::Tensor value, size_t i = 0) {
  kernel.outputs[i] = from_aten(std::move(value));
}

inline at::IntArrayRef sizes(const Shape& shape) { return {shape.begin(), shape.end()}; }

}  // namespace cohort::internal
