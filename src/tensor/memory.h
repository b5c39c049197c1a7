#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "cohort/tensor.h"
#include "tensor/devices.h"

namespace cohort::internal {

// A tensor whose elements the caller is about to write. After the caller has handed the tensor on,
// it must not write any more.
struct WritableTensor {
  Tensor tensor;
  std::byte* data = nullptr;
};

// Fresh memory of the host with arbitrary content, for numeric dtypes only (InvalidArgument).
// Throws ResourceExhausted when memory is short.
WritableTensor allocate_tensor(DType dtype, const Shape& shape);

// Zeros, or empty strings.
Tensor allocate_zeros(DType dtype, const Shape& shape);

// Fresh memory for such a tensor where its own memory is, which belongs to the current device.
WritableTensor allocate_like(const Tensor& tensor);

// Values of a few bytes lie beside their dtype and shape: the kernel library takes longer to make a
// tensor than a loop takes to fill it.
inline constexpr int64_t kSmallBytes = 32;
inline bool is_small(DType dtype, int64_t elements) {
  return is_numeric(dtype) && elements <= kSmallBytes && elements * size_of(dtype) <= kSmallBytes;
}
// Room for a value of a few bytes, which belongs to the current device. A GPU gets its copy when a
// kernel asks for one. `weak`: the value takes the dtype of the tensor that it meets.
WritableTensor make_small(DType dtype, const Shape& shape, bool weak = false);

// How many bytes the elements of a numeric tensor have.
inline int64_t bytes_of(const Tensor& tensor) { return tensor.size() * size_of(tensor.dtype()); }
// A numeric tensor's elements in row-major order. They live as long as the tensor.
const std::byte* element_bytes(const Tensor& tensor);

// Whether both are values (not symbols) that lie in the same memory from the same element on.
bool same_memory(const Tensor& a, const Tensor& b);

// Whether a device may still read or write the value although no code holds it. Streams that run
// asynchronously make this true; the streams of today have done their work when a call returns. All
// that reuse memory ask here after they have counted references.
inline bool is_awaited_by_device(const Tensor&) { return false; }

// Whether `tensor` is the only handle of its value, and exactly `sharers` values, with this one,
// share its memory. Then no other code can read the value any more.
bool is_held_here_only(const Tensor& tensor, size_t sharers);

// Of the free elements of `kept`, the one used last, which moves to the end of `kept`; null if no
// element is free. `kept` has its elements in the order of their last uses.
template <typename T, typename IsFree>
T* reuse_last(std::vector<T>& kept, const IsFree& is_free) {
  const auto found = std::find_if(kept.rbegin(), kept.rend(), is_free);
  if (found == kept.rend()) return nullptr;
  std::rotate(found.base() - 1, found.base(), kept.end());
  return &kept.back();
}

// Part of a numeric tensor's memory as a tensor of its own, which keeps the memory alive: `shape`
// elements from element `offset` on, in row-major order. They must lie inside `parent`.
Tensor view_elements(const Tensor& parent, int64_t offset, const Shape& shape);

// Memory of the host that `owner`, which is not null, keeps alive and unchanged. It holds the
// elements in row-major order, aligned to their size. Cheap: the kernel library learns of it when
// it is used.
Tensor borrow_memory(const std::byte* data, DType dtype, const Shape& shape,
                     std::shared_ptr<const void> owner);

// Another numeric tensor of the same memory, which belongs to the current device.
Tensor share_memory(const Tensor& tensor);

// The tensor as a constant to keep. It is a copy if other code shares its memory, because a torch
// program may write to shared memory.
Tensor constant_of(const Tensor& tensor);

// The same elements as a value of `device`. Logical CPU devices share memory, so nothing is copied
// between them but strings. Resources stay where they are; symbols throw FailedPrecondition.
Tensor on_device(const Tensor& tensor, const Device& device);
// The value itself if its memory is where that of the device is, else a copy on the device.
Tensor reachable_from(const Device& device, const Tensor& value);

}  // namespace cohort::internal
