#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "cohort/tensor.h"

// Tensors as bytes of a file, little-endian.
namespace cohort::internal {

// The elements of a tensor, or what stands for strings: their lengths, 8 bytes each, then the
// strings themselves. Keeps the tensor alive.
class TensorBytes {
 public:
  explicit TensorBytes(Tensor tensor);
  const Tensor& tensor() const { return tensor_; }
  std::string_view view() const;

 private:
  Tensor tensor_;
  std::string encoded_;  // of strings
};

// The other way for strings. Throws DataLoss beginning with `what` when the bytes are none.
Tensor decode_strings(std::string_view bytes, const Shape& shape, std::string_view what);

}  // namespace cohort::internal
