#include "checkpoint/shard_file.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <tuple>
#include <vector>

#include "base/raise.h"
#include "checkpoint/json_fields.h"
#include "data/byte_source.h"
#include "tensor/body.h"
#include "tensor/memory.h"

namespace cohort::internal {
namespace {

using data::internal::crc32c;
using data::internal::extend_crc32c;

static_assert(std::endian::native == std::endian::little, "files are little-endian");

constexpr size_t kLengthBytes = sizeof(uint64_t);  // of a header, and of a string
constexpr size_t kChunk = 4 << 20;                 // what is in the cache when its checksum is done
constexpr std::string_view kMetadata = "__metadata__";
constexpr size_t kAlignment = 8;

struct Named {
  DType dtype;
  std::string_view name;
};
constexpr Named kTypes[] = {
    {kFloat16, "F16"}, {kBFloat16, "BF16"}, {kFloat32, "F32"}, {kFloat64, "F64"}, {kInt8, "I8"},
    {kInt16, "I16"},   {kInt32, "I32"},     {kInt64, "I64"},   {kUInt8, "U8"},    {kBool, "BOOL"}};

std::string_view name_of(DType dtype) {
  for (const Named& type : kTypes) {
    if (type.dtype == dtype) return type.name;
  }
  raise(Code::InvalidArgument, "[Safetensors] the format does not support tensors of dtype {}",
        to_string(dtype));
}

DType type_named(const std::string& name, const JsonPlace& place) {
  for (const Named& type : kTypes) {
    if (type.name == name) return type.dtype;
  }
  raise(Code::Unimplemented, "[Checkpoint] {}: tensors of type '{}' cannot be read",
        place.to_string(), name);
}

// Wide elements first, so that every tensor begins at a multiple of its element's size.
std::vector<std::string> order_of(const SafetensorsEntries& tensors) {
  std::vector<std::string> order;
  for (const auto& [name, tensor] : tensors) order.push_back(name);
  std::stable_sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
    return size_of(tensors.at(a).dtype) > size_of(tensors.at(b).dtype);
  });
  return order;
}

std::string with_length(std::string text) {
  while (text.size() % kAlignment != 0) text += ' ';
  if (text.size() > kMaxHeaderBytes) {
    raise(Code::InvalidArgument,
          "[Safetensors] the names and shapes take {} bytes, but one file has at most {}",
          text.size(), kMaxHeaderBytes);
  }
  const uint64_t length = text.size();
  std::string bytes(kLengthBytes, '\0');
  std::memcpy(bytes.data(), &length, kLengthBytes);
  return bytes + text;
}

// The header, which comes before the tensors' bytes, and the place of each tensor.
struct SafetensorsLayout {
  std::string header;
  std::vector<std::string> order;  // in which the bytes follow
  SafetensorsEntries entries;
  uint64_t file_size = 0;
};

// Gives each tensor its place. Throws InvalidArgument for names that the format does not allow, or
// too many of them.
SafetensorsLayout lay_out(SafetensorsEntries tensors) {
  SafetensorsLayout layout;
  layout.order = order_of(tensors);
  FileJson text = {{kMetadata, {{"format", "cohort"}}}};
  uint64_t offset = 0;
  for (const std::string& name : layout.order) {
    if (name == kMetadata) {
      raise(Code::InvalidArgument,
            "[Safetensors] the format reserves the name '{}'; give the tensor another name", name);
    }
    SafetensorsEntry& tensor = tensors.at(name);
    tensor.begin = offset;
    offset += tensor.size;
    text[name] = {{"dtype", name_of(tensor.dtype)},
                  {"shape", tensor.shape.to_vector()},
                  {"data_offsets", {tensor.begin, offset}}};
  }
  layout.header = with_length(dump_json(text));
  for (auto& [name, tensor] : tensors) tensor.begin += layout.header.size();
  layout.entries = std::move(tensors);
  layout.file_size = layout.header.size() + offset;
  return layout;
}

SafetensorsEntry described(const TensorBytes& bytes) {
  const auto size = static_cast<uint64_t>(bytes.view().size());
  const Tensor& tensor = bytes.tensor();
  if (tensor.dtype() != kString) return {tensor.dtype(), tensor.shape(), 0, size};
  return {kUInt8, Shape{static_cast<int64_t>(size)}, 0, size};
}

uint32_t write_bytes(NewFile& file, std::string_view bytes, BytesWritten* progress) {
  uint32_t checksum = 0;
  while (!bytes.empty()) {
    const std::string_view chunk = bytes.substr(0, kChunk);
    checksum = extend_crc32c(checksum, chunk);
    file.write(chunk);
    if (progress != nullptr) *progress += static_cast<int64_t>(chunk.size());
    bytes.remove_prefix(chunk.size());
  }
  return checksum;
}

SafetensorsEntry parse_entry(const FileJson& value, const JsonPlace& place, uint64_t header_bytes,
                             uint64_t file_size) {
  check_object(value, place);
  const DType dtype = type_named(text_field(value, "dtype", place), place);
  const Shape shape = shape_field(value, "shape", place);
  const std::vector<uint64_t> offsets = counts_field(value, "data_offsets", 2, place);
  if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > file_size - header_bytes) {
    raise(Code::DataLoss,
          "[Checkpoint] {}: data_offsets must be a begin and an end inside the file",
          place.to_string());
  }
  const uint64_t size = offsets[1] - offsets[0];
  if (bytes_of(dtype, shape) != size) {
    raise(Code::DataLoss, "[Checkpoint] {}: {} elements of shape {} do not take {} bytes",
          place.to_string(), to_string(dtype), shape.to_string(), size);
  }
  return {dtype, shape, header_bytes + offsets[0], size};
}

// Tensors must not overlap and must cover the whole data section.
void check_gapless(const SafetensorsEntries& entries, uint64_t begin, uint64_t end,
                   const std::string& file) {
  std::vector<std::tuple<uint64_t, uint64_t, std::string_view>> parts;  // begin, size and name
  for (const auto& [name, entry] : entries) parts.emplace_back(entry.begin, entry.size, name);
  std::sort(parts.begin(), parts.end());
  for (const auto& [at, size, name] : parts) {
    if (at != begin) {
      raise(Code::DataLoss, "[Checkpoint] '{}': the bytes of tensor '{}' {}", file, name,
            at < begin ? "overlap those of another tensor" : "come after a gap");
    }
    begin += size;
  }
  if (begin != end) {
    raise(Code::DataLoss, "[Checkpoint] '{}' has {} bytes after its last tensor", file,
          end - begin);
  }
}

std::string encode(const std::vector<std::string>& values) {
  std::string bytes(values.size() * kLengthBytes, '\0');
  for (size_t i = 0; i < values.size(); ++i) {
    const uint64_t length = values[i].size();
    std::memcpy(bytes.data() + i * kLengthBytes, &length, kLengthBytes);
  }
  for (const std::string& value : values) bytes += value;
  return bytes;
}

}  // namespace

WrittenShard write_shard(const std::string& path, const KeyedTensors& tensors,
                         BytesWritten* progress) {
  std::map<std::string, TensorBytes> bytes;
  SafetensorsEntries entries;
  for (const auto& [key, tensor] : tensors) {
    entries.emplace(key, described(bytes.emplace(key, tensor).first->second));
  }
  const SafetensorsLayout layout = lay_out(std::move(entries));
  NewFile file(path);
  file.write(layout.header);
  WrittenShard written{
      .size = layout.file_size, .header_crc32c = crc32c(layout.header), .tensors = {}};
  for (const std::string& key : layout.order) {
    const SafetensorsEntry& entry = layout.entries.at(key);
    const TensorBytes& each = bytes.at(key);
    written.tensors[key] = {.key = key,
                            .extent = whole_of(each.tensor().shape()),
                            .begin = entry.begin,
                            .size = entry.size,
                            .crc32c = write_bytes(file, each.view(), progress)};
  }
  file.commit();
  return written;
}

int64_t total_bytes(std::span<const Tensor> tensors) {
  int64_t bytes = 0;
  for (const Tensor& tensor : tensors) {
    bytes += static_cast<int64_t>(TensorBytes(tensor).view().size());
  }
  return bytes;
}

uint64_t header_size(std::string_view first_bytes, uint64_t file_size, const std::string& file) {
  uint64_t length = 0;
  if (first_bytes.size() < kLengthBytes) {
    raise(Code::DataLoss, "[Checkpoint] '{}' has {} bytes, too few for a safetensors file", file,
          file_size);
  }
  std::memcpy(&length, first_bytes.data(), kLengthBytes);
  if (length > kMaxHeaderBytes || length > file_size - kLengthBytes) {
    raise(Code::DataLoss,
          "[Checkpoint] '{}' has {} bytes, but claims a header of {} bytes: it is cut off, or not "
          "a safetensors file",
          file, file_size, length);
  }
  return kLengthBytes + length;
}

std::string read_header(const ReadFile& file) {
  std::string first(std::min<uint64_t>(kLengthBytes, file.size()), '\0');
  file.read(0, std::as_writable_bytes(std::span(first)));
  std::string header(header_size(first, file.size(), file.path()), '\0');
  file.read(0, std::as_writable_bytes(std::span(header)));
  return header;
}

SafetensorsEntries parse_header(std::string_view header, uint64_t file_size,
                                const std::string& file) {
  const FileJson text = parse_file_json(header.substr(kLengthBytes), file);
  check_object(text, {file, {}});
  SafetensorsEntries entries;
  for (const auto& [name, value] : text.items()) {
    if (name == kMetadata) continue;
    entries.emplace(name, parse_entry(value, {file, name}, header.size(), file_size));
  }
  check_gapless(entries, header.size(), file_size, file);
  return entries;
}

ReadFile open_shard(const std::string& path, uint64_t size, uint32_t header_crc32c) {
  ReadFile file(path);
  if (file.size() != size) {
    raise(Code::DataLoss, "[Checkpoint] '{}' has {} bytes, but the manifest says {}{}", path,
          file.size(), size, file.size() < size ? ": it is cut off" : "");
  }
  if (crc32c(read_header(file)) == header_crc32c) return file;
  raise(Code::DataLoss,
        "[Checkpoint] the header of '{}' does not match the manifest: the file is damaged, or "
        "belongs to another checkpoint",
        path);
}

ShardFile::ShardFile(const std::string& path, uint64_t size, uint32_t header_crc32c)
    : file_(open_shard(path, size, header_crc32c)),
      entries_(parse_header(read_header(file_), file_.size(), path)) {}

TensorBytes::TensorBytes(Tensor tensor)
    : tensor_(std::move(tensor)),
      encoded_(tensor_.dtype() == kString ? encode(strings(tensor_)) : std::string()) {}

std::string_view TensorBytes::view() const {
  if (tensor_.dtype() == kString) return encoded_;
  return {reinterpret_cast<const char*>(element_bytes(tensor_)),
          static_cast<size_t>(tensor_.size() * size_of(tensor_.dtype()))};
}

Tensor decode_strings(std::string_view bytes, const Shape& shape, std::string_view what) {
  const auto count = static_cast<uint64_t>(shape.num_elements());
  if (count > bytes.size() / kLengthBytes) {
    raise(Code::DataLoss, "{}: {} bytes do not hold {} strings", what, bytes.size(), count);
  }
  std::string_view rest = bytes.substr(count * kLengthBytes);
  std::vector<std::string> values;
  values.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t length = 0;
    std::memcpy(&length, bytes.data() + i * kLengthBytes, kLengthBytes);
    if (length > rest.size()) {
      raise(Code::DataLoss, "{}: string {} of {} claims {} bytes, but only {} bytes are left", what,
            i, count, length, rest.size());
    }
    values.emplace_back(rest.substr(0, length));
    rest.remove_prefix(length);
  }
  if (!rest.empty()) {
    raise(Code::DataLoss, "{}: {} bytes are left after the last string", what, rest.size());
  }
  return Tensor::from(std::move(values), shape);
}

}  // namespace cohort::internal
