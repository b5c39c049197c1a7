#include "checkpoint/shard_file.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
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

constexpr size_t kChunk = 4 << 20;  // what is in the cache when its checksum is done

SafetensorsTensor described(const TensorBytes& bytes) {
  const auto size = static_cast<uint64_t>(bytes.view().size());
  const Tensor& tensor = bytes.tensor();
  if (tensor.dtype() != kString) return {tensor.dtype(), tensor.shape(), size};
  return {kUInt8, Shape{static_cast<int64_t>(size)}, size};
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

}  // namespace

WrittenShard write_shard(const std::string& path, const KeyedTensors& tensors,
                         BytesWritten* progress) {
  std::map<std::string, TensorBytes> bytes;
  std::map<std::string, SafetensorsTensor> descriptions;
  for (const auto& [key, tensor] : tensors) {
    descriptions.emplace(key, described(bytes.emplace(key, tensor).first->second));
  }
  const SafetensorsLayout layout = lay_out(descriptions);
  NewFile file(path);
  file.write(layout.header);
  WrittenShard written{
      .size = layout.file_size, .header_crc32c = crc32c(layout.header), .tensors = {}};
  for (const std::string& key : layout.order) {
    const SafetensorsEntry& entry = layout.entries.at(key);
    const TensorBytes& each = bytes.at(key);
    written.tensors[key] = {each.tensor().shape(), entry.begin, entry.size,
                            write_bytes(file, each.view(), progress)};
  }
  file.commit();
  return written;
}

int64_t total_bytes(const KeyedTensors& tensors) {
  int64_t bytes = 0;
  for (const auto& [key, tensor] : tensors) {
    bytes += static_cast<int64_t>(TensorBytes(tensor).view().size());
  }
  return bytes;
}

std::string shard_report(const WrittenShard& shard) {
  FileJson tensors = FileJson::object();
  for (const auto& [key, tensor] : shard.tensors) {
    tensors[key] = {{"shape", tensor.shape.to_vector()},
                    {"begin", tensor.begin},
                    {"size", tensor.size},
                    {"crc32c", checksum_text(tensor.crc32c)}};
  }
  return dump_json({{"size", shard.size},
                    {"header_crc32c", checksum_text(shard.header_crc32c)},
                    {"device", shard.device},
                    {"tensors", std::move(tensors)}});
}

WrittenShard parse_shard_report(std::string_view text, const std::string& device) {
  const std::string from = "report of " + device;
  const FileJson report = parse_file_json(text, from);
  const JsonPlace place{from, {}};
  check_object(report, place);
  WrittenShard shard{.size = count_field(report, "size", place),
                     .header_crc32c = checksum_field(report, "header_crc32c", place),
                     .tensors = {},
                     .device = text_field(report, "device", place)};
  const FileJson& tensors = field(report, "tensors", place);
  check_object(tensors, place);
  for (const auto& [key, value] : tensors.items()) {
    const JsonPlace tensor{from, key};
    check_object(value, tensor);
    shard.tensors[key] = {shape_field(value, "shape", tensor), count_field(value, "begin", tensor),
                          count_field(value, "size", tensor),
                          checksum_field(value, "crc32c", tensor)};
  }
  return shard;
}

std::string read_header(const ReadFile& file) {
  constexpr uint64_t kFirstBytes = 8;
  std::string first(std::min(kFirstBytes, file.size()), '\0');
  file.read(0, std::as_writable_bytes(std::span(first)));
  std::string header(header_size(first, file.size(), file.path()), '\0');
  file.read(0, std::as_writable_bytes(std::span(header)));
  return header;
}

namespace {

void check_size(const ReadFile& file, uint64_t size) {
  if (file.size() == size) return;
  raise(Code::DataLoss, "[Checkpoint] '{}' has {} bytes, but the manifest says {}{}", file.path(),
        file.size(), size, file.size() < size ? ": it is cut off" : "");
}

}  // namespace

ReadFile open_shard(const std::string& path, uint64_t size, uint32_t header_crc32c) {
  ReadFile file(path);
  check_size(file, size);
  if (crc32c(read_header(file)) == header_crc32c) return file;
  raise(
      Code::DataLoss,
      "[Checkpoint] the header of '{}' is not the one that the manifest speaks of: it is damaged, "
      "or another checkpoint's",
      path);
}

ShardFile::ShardFile(const std::string& path, uint64_t size, uint32_t header_crc32c)
    : file_(open_shard(path, size, header_crc32c)),
      entries_(parse_header(read_header(file_), file_.size(), path)) {}

namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian");

constexpr size_t kLengthBytes = sizeof(uint64_t);

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
      raise(Code::DataLoss, "{}: string {} of {} is said to have {} bytes, of {} left", what, i,
            count, length, rest.size());
    }
    values.emplace_back(rest.substr(0, length));
    rest.remove_prefix(length);
  }
  if (!rest.empty()) raise(Code::DataLoss, "{}: {} bytes too many", what, rest.size());
  return Tensor::from(std::move(values), shape);
}

}  // namespace cohort::internal
