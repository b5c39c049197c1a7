#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "cohort/tensor.h"
#include "data/byte_source.h"
#include "tensor/memory.h"

namespace cohort::data::internal {

// What the header of a file says that holds one array.
struct ArrayHeader {
  DType dtype = kFloat32;
  bool swapped = false;        // the elements are big-endian
  bool fortran_order = false;  // the first index varies fastest
  Shape shape;
};

// Elements on their way from a file into a tensor.
class TensorBytes {
 public:
  explicit TensorBytes(cohort::internal::WritableTensor tensor, size_t bytes)
      : tensor_(std::move(tensor.tensor)), bytes_(tensor.data, bytes) {}
  explicit TensorBytes(std::vector<std::byte> bytes)
      : owned_(std::make_shared<std::vector<std::byte>>(std::move(bytes))), bytes_(*owned_) {}
  std::span<std::byte> bytes() { return bytes_; }
  // Takes the bytes over without a copy.
  Tensor finish(DType dtype, const Shape& shape) &&;

 private:
  Tensor tensor_;                                  // whose memory the bytes are, or
  std::shared_ptr<std::vector<std::byte>> owned_;  // what they were collected in
  std::span<std::byte> bytes_;
};

// Reverses the bytes of each element of that width.
void swap_bytes(std::span<std::byte> bytes, size_t width);

// The bytes of a tensor of that kind. A shape that does not fit into 64 bits or into the rest of
// the file is DataLoss that begins with [format] and names the file, what was announced and what is
// there.
TensorBytes read_tensor_bytes(std::string_view format, BufferedBytes& bytes, DType dtype,
                              const Shape& shape);
// Throws DataLoss unless the source ends here.
void check_at_end(std::string_view format, BufferedBytes& bytes, const Shape& shape);

// The file of the MNIST family (idx) that `bytes` are. DataLoss says what is wrong with it.
ArrayHeader read_idx_header(BufferedBytes& bytes);
Tensor parse_idx(BufferedBytes& bytes);

}  // namespace cohort::data::internal
