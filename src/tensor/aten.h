#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <atomic>
#include <mutex>

#include "tensor/body.h"
#include "tensor/memory.h"

namespace cohort::internal {

struct NumericBody : TensorBody {
  at::Tensor value;  // undefined in a LateBody
  // A row-major copy of a value that is a strided view or not aligned, made when a caller asks for
  // the bytes.
  mutable std::once_flag dense_once;
  mutable at::Tensor dense;
};

// Elements in plain memory. `value` stays undefined. aten() makes a tensor of the kernel library at
// the first request, because making one costs more than everything else.
struct LateBody : NumericBody {
  const std::byte* bytes = nullptr;
  std::shared_ptr<const void> owner;  // of the bytes; null when they lie in the body
  mutable std::atomic<bool> is_made = false;
  mutable std::once_flag made_once;
  mutable at::Tensor made;
};

// The body that make_small() makes. Once the kernel library has a tensor of the value, that tensor
// is the value.
struct SmallBody : LateBody {
  alignas(16) std::array<std::byte, kSmallBytes> own;
};

// The elements of a LateBody; null for other bodies, and once the value of a SmallBody has moved to
// the kernel library.
const std::byte* plain_bytes(const NumericBody& body);

// What aten() returns for a LateBody.
const at::Tensor& made_value(const NumericBody& body);

at::ScalarType to_aten(DType dtype);
// Throws InvalidArgument for torch types without a counterpart (complex, quantised).
DType from_aten(at::ScalarType type);

// The kernel library's tensor inside. Throws FailedPrecondition on symbols and InvalidArgument on
// strings and resources.
const at::Tensor& aten(const Tensor& tensor);

// Shares `value`'s memory. The tensor belongs to the current device if that is where the memory is,
// else to the device where the memory is.
Tensor from_aten(at::Tensor value);

// Places, for the kernel library and from it.
at::Device to_aten(Place place);
Place place_of(const at::Tensor& value);
// `value` itself if its memory is there, else a copy.
at::Tensor at_place(const at::Tensor& value, Place place);

inline at::IntArrayRef sizes(const Shape& shape) { return {shape.begin(), shape.end()}; }
inline Shape shape_of(at::IntArrayRef sizes) {
  return Shape(std::span(sizes.data(), sizes.size()));
}

// What cohort/torch.h converts with.
at::Tensor to_torch(const Tensor& tensor);
Tensor from_torch(const at::Tensor& tensor);

}  // namespace cohort::internal
