#pragma once

#include <string_view>

#include "cohort/tensor.h"
#include "data/byte_source.h"

namespace cohort::data::internal {

// Elements on their way from a file into a tensor.
class TensorBytes {
 public:
  explicit TensorBytes(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}
  std::span<std::byte> bytes() { return bytes_; }
  // Takes the bytes over without a copy.
  Tensor finish(DType dtype, const Shape& shape) &&;

 private:
  std::vector<std::byte> bytes_;
};

// The bytes of a tensor of that kind. A shape that does not fit into 64 bits or into the rest of
// the file is DataLoss that begins with [format] and names the file, what was announced and what is
// there.
TensorBytes read_tensor_bytes(std::string_view format, BufferedBytes& bytes, DType dtype,
                              const Shape& shape);
// Throws DataLoss unless the source ends here.
void check_at_end(std::string_view format, BufferedBytes& bytes, const Shape& shape);

// The readers of whole files, on bytes from anywhere.
Tensor parse_idx(BufferedBytes& bytes);

}  // namespace cohort::data::internal
