#pragma once

#include <ATen/core/Tensor.h>

#include <mutex>

#include "tensor/body.h"

namespace cohort::internal {

struct NumericBody : TensorBody {
  at::Tensor value;  // undefined in a SmallBody (tensor/small.h)
  // A row-major copy of a value that is a strided view or not aligned, made when somebody wants to
  // see the bytes.
  mutable std::once_flag dense_once;
  mutable at::Tensor dense;
};

at::ScalarType to_aten(DType dtype);
// Throws InvalidArgument for the torch types that no tensor of ours has (complex, quantised).
DType from_aten(at::ScalarType type);

// The kernel library's tensor inside. Throws FailedPrecondition on symbols and InvalidArgument on
// strings and resources.
const at::Tensor& aten(const Tensor& tensor);

// Shares `value`'s memory; the tensor belongs to the current device.
Tensor from_aten(at::Tensor value);

// What cohort/torch.h converts with.
at::Tensor to_torch(const Tensor& tensor);
Tensor from_torch(const at::Tensor& tensor);

}  // namespace cohort::internal
