// idx, the format of MNIST, and the datasets in that format. A file is two zero bytes, an element
// type, the number of dimensions, each size as a big-endian 32-bit number, and the elements, also
// big-endian.

#include <bit>
#include <filesystem>

#include "cohort/readers.h"
#include "data/array_file.h"

namespace cohort::data {
namespace internal {
namespace {

DType idx_dtype(uint8_t type, const std::string& name) {
  static constexpr std::pair<uint8_t, DType> kTypes[] = {{0x08, kUInt8},   {0x09, kInt8},
                                                         {0x0B, kInt16},   {0x0C, kInt32},
                                                         {0x0D, kFloat32}, {0x0E, kFloat64}};
  for (const auto& [code, dtype] : kTypes) {
    if (code == type) return dtype;
  }
  raise(Code::DataLoss, "[Idx] '{}': {:#04x} is not an element type of this format", name, type);
}

uint32_t big_endian(const std::byte* bytes) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | static_cast<uint8_t>(bytes[i]);
  return value;
}

Shape read_shape(BufferedBytes& bytes, int rank) {
  const auto header = bytes.window(static_cast<size_t>(4 * rank));
  if (header.size() < static_cast<size_t>(4 * rank)) {
    raise(Code::DataLoss, "[Idx] '{}' ends inside its header: {} dimensions are announced",
          bytes.name(), rank);
  }
  std::vector<int64_t> sizes;
  for (int axis = 0; axis < rank; ++axis) sizes.push_back(big_endian(header.data() + 4 * axis));
  bytes.consume(static_cast<size_t>(4 * rank));
  return Shape(sizes);
}

class IdxNode : public NodeOf<IdxNode, ArrayNode> {
 public:
  std::string_view kind() const override { return "Idx"; }
  ArrayHeader read_header(BufferedBytes& bytes) const override { return read_idx_header(bytes); }
};

// Opens the file. If it does not exist, the error names a Debian package of such files.
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
  return read_whole("Idx", bytes, header).finish(header.dtype, header.shape);
}

std::shared_ptr<Node> make_idx() { return std::make_shared<IdxNode>(); }

}  // namespace internal

Tensor read_idx(const std::string& path) {
  internal::BufferedBytes bytes(internal::open_idx(path));
  return internal::parse_idx(bytes);
}

Dataset idx(const Files& files) {
  return internal::add_stage<internal::IdxNode>(internal::names_of(files));
}

namespace {

std::string find(const std::string& directory, const std::string& name, std::string_view source) {
  for (const char* ending : {"", ".gz", ".zst"}) {
    const std::string path = directory + "/" + name + ending;
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored)) return path;
  }
  internal::raise(Code::NotFound, "[Mnist] '{}/{}' does not exist, plain or with .gz or .zst; {}",
                  directory, name, source);
}

Dataset load(const std::string& directory, const std::string& name, std::string_view source) {
  const std::string images_path = find(directory, name + "-images-idx3-ubyte", source);
  const std::string labels_path = find(directory, name + "-labels-idx1-ubyte", source);
  const Tensor images = read_idx(images_path);
  const Tensor labels = read_idx(labels_path);
  if (images.dtype() != kUInt8 || images.rank() != 3) {
    internal::raise(
        Code::DataLoss,
        "[Mnist] '{}' must hold uint8 images of shape (count, height, width), got {} of shape {}",
        images_path, to_string(images.dtype()), images.shape().to_string());
  }
  if (labels.dtype() != kUInt8 || labels.rank() != 1 || labels.size() != images.shape()[0]) {
    internal::raise(
        Code::DataLoss,
        "[Mnist] '{}' must hold one uint8 label for each of {} images, got {} of shape {}",
        labels_path, images.shape()[0], to_string(labels.dtype()), labels.shape().to_string());
  }
  return from_tensor_slices(images, labels);
}

TrainAndTest load_both(const std::string& directory, std::string_view source) {
  return {load(directory, "train", source), load(directory, "t10k", source)};
}

}  // namespace

TrainAndTest mnist(const std::string& directory) {
  return load_both(
      directory,
      "Debian has no package of MNIST; put its four files there, or use fashion_mnist(), "
      "whose package is dataset-fashion-mnist");
}

TrainAndTest fashion_mnist(const std::string& directory) {
  return load_both(directory, "install it with: apt install dataset-fashion-mnist");
}

}  // namespace cohort::data
