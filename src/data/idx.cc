// The format of the MNIST family: two zero bytes, a type, the number of dimensions, each size as a
// big-endian 32-bit number, then the elements, big-endian too.

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/raise.h"
#include "cohort/data.h"
#include "data/byte_source.h"
#include "data/read_tensor.h"

namespace cohort::data {
namespace internal {
namespace {

DType idx_dtype(uint8_t type, const std::string& name) {
  switch (type) {
    case 0x08:
      return kUInt8;
    case 0x09:
      return kInt8;
    case 0x0B:
      return kInt16;
    case 0x0C:
      return kInt32;
    case 0x0D:
      return kFloat32;
    case 0x0E:
      return kFloat64;
    default:
      raise(Code::DataLoss, "[Idx] '{}': {:#04x} is not an element type of this format", name,
            type);
  }
}

uint32_t big_endian(const std::byte* bytes) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | static_cast<uint8_t>(bytes[i]);
  return value;
}

Shape read_shape(BufferedBytes& bytes, int rank) {
  const auto header = bytes.window(static_cast<size_t>(4 * rank));
  if (header.size() < static_cast<size_t>(4 * rank)) {
    raise(Code::DataLoss, "[Idx] '{}' ends inside of its header: {} dimensions are announced",
          bytes.name(), rank);
  }
  std::vector<int64_t> sizes;
  for (int axis = 0; axis < rank; ++axis) sizes.push_back(big_endian(header.data() + 4 * axis));
  bytes.consume(static_cast<size_t>(4 * rank));
  return Shape(sizes);
}

void swap_bytes(std::span<std::byte> bytes, size_t width) {
  if (width == 1) return;
  for (size_t at = 0; at + width <= bytes.size(); at += width) {
    std::reverse(bytes.begin() + static_cast<ptrdiff_t>(at),
                 bytes.begin() + static_cast<ptrdiff_t>(at + width));
  }
}

}  // namespace

Tensor parse_idx(BufferedBytes& bytes) {
  const auto magic = bytes.window(4);
  if (magic.size() < 4)
    raise(Code::DataLoss, "[Idx] '{}' is shorter than its header", bytes.name());
  if (magic[0] != std::byte{0} || magic[1] != std::byte{0}) {
    raise(Code::DataLoss, "[Idx] '{}' is not an idx file: it does not begin with two zero bytes",
          bytes.name());
  }
  const DType dtype = idx_dtype(static_cast<uint8_t>(magic[2]), bytes.name());
  const int rank = static_cast<int>(magic[3]);
  if (rank > Shape::kMaxRank) {
    raise(Code::DataLoss, "[Idx] '{}' announces {} dimensions; at most {} are supported",
          bytes.name(), rank, Shape::kMaxRank);
  }
  bytes.consume(4);
  const Shape shape = read_shape(bytes, rank);
  TensorBytes content = read_tensor_bytes("Idx", bytes, dtype, shape);
  check_at_end("Idx", bytes, shape);
  if constexpr (std::endian::native == std::endian::little) {
    swap_bytes(content.bytes(), static_cast<size_t>(size_of(dtype)));
  }
  return std::move(content).finish(dtype, shape);
}

}  // namespace internal

Tensor read_idx(const std::string& path) {
  internal::BufferedBytes bytes(internal::open_bytes(path));
  return internal::parse_idx(bytes);
}

}  // namespace cohort::data
