#pragma once

#include <cstddef>

#include "cohort/tensor.h"

namespace cohort::internal {

// A tensor whose elements somebody is about to write. Once the tensor is handed on, nobody writes.
struct WritableTensor {
  Tensor tensor;
  std::byte* data = nullptr;
};

// Fresh memory with arbitrary content. Numeric dtypes only (InvalidArgument). Throws
// ResourceExhausted when there is not enough.
WritableTensor allocate_tensor(DType dtype, const Shape& shape);

// Part of a numeric tensor's memory as a tensor of its own, which keeps the memory alive: `shape`
// elements from element `offset` on, in row-major order. They must lie inside of `parent`.
Tensor view_elements(const Tensor& parent, int64_t offset, const Shape& shape);

}  // namespace cohort::internal
