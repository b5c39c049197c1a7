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

// Zeros, or empty strings.
Tensor allocate_zeros(DType dtype, const Shape& shape);

// Fresh memory for such a tensor where its own memory is, which belongs to the current device.
WritableTensor allocate_like(const Tensor& tensor);

// Values of a few bytes lie beside their dtype and shape: the kernel library takes longer to make a
// tensor than a loop takes to fill one.
inline constexpr int64_t kSmallBytes = 32;
inline bool is_small(DType dtype, int64_t elements) {
  return is_numeric(dtype) && elements <= kSmallBytes && elements * size_of(dtype) <= kSmallBytes;
}
// Room for such a value. `weak`: it takes the dtype of the tensor that it meets.
WritableTensor make_small(DType dtype, const Shape& shape, bool weak = false);

// A numeric tensor's elements in row-major order. They live as long as the tensor.
const std::byte* element_bytes(const Tensor& tensor);

// Whether both are values (not symbols) that lie in the same memory from the same element on.
bool same_memory(const Tensor& a, const Tensor& b);

// Whether `tensor` is the only handle of its value, and its memory has exactly `sharers` values,
// this one among them: then nobody else can read it any more.
bool is_held_here_only(const Tensor& tensor, size_t sharers);

// Part of a numeric tensor's memory as a tensor of its own, which keeps the memory alive: `shape`
// elements from element `offset` on, in row-major order. They must lie inside of `parent`.
Tensor view_elements(const Tensor& parent, int64_t offset, const Shape& shape);

}  // namespace cohort::internal
