// The format of the MNIST family: two zero bytes, a type, the number of dimensions, each size as a
// big-endian 32-bit number, then the elements, big-endian too.

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/raise.h"
#include "cohort/data.h"
#include "data/array_rows.h"
#include "data/byte_source.h"

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

}  // namespace

ArrayHeader read_idx_header(BufferedBytes& bytes) {
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
  const bool swapped = std::endian::native == std::endian::little && size_of(dtype) > 1;
  return {.dtype = dtype, .swapped = swapped, .shape = read_shape(bytes, rank)};
}

Tensor parse_idx(BufferedBytes& bytes) {
  const ArrayHeader header = read_idx_header(bytes);
  TensorBytes content = read_tensor_bytes("Idx", bytes, header.dtype, header.shape);
  check_at_end("Idx", bytes, header.shape);
  if (header.swapped) swap_bytes(content.bytes(), static_cast<size_t>(size_of(header.dtype)));
  return std::move(content).finish(header.dtype, header.shape);
}

namespace {

class IdxNode : public ReaderNodeOf<IdxNode, ArrayNode> {
 public:
  std::string_view kind() const override { return "Idx"; }
  ArrayHeader read_header(BufferedBytes& bytes) const override { return read_idx_header(bytes); }
};

// The file, or where Debian has one.
std::unique_ptr<ByteSource> open_idx(const std::string& path) {
  try {
    return open_bytes(path);
  } catch (const Error& error) {
    if (error.code() != Code::NotFound) throw;
    raise(Code::NotFound,
          "{}; the Debian package dataset-fashion-mnist has files of this kind (apt install "
          "dataset-fashion-mnist)",
          error.message());
  }
}

}  // namespace

std::shared_ptr<Node> make_idx() { return std::make_shared<IdxNode>(); }

}  // namespace internal

Tensor read_idx(const std::string& path) {
  internal::BufferedBytes bytes(internal::open_idx(path));
  return internal::parse_idx(bytes);
}

Dataset idx(const Files& files) {
  return internal::finish(internal::reader_on<internal::IdxNode>(files));
}

}  // namespace cohort::data
