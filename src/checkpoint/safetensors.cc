#include "checkpoint/safetensors.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/raise.h"
#include "checkpoint/json_fields.h"

namespace cohort::internal {
namespace {

constexpr std::string_view kMetadata = "__metadata__";
constexpr size_t kLength = sizeof(uint64_t);
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
  raise(Code::InvalidArgument, "[Safetensors] the format has no {} tensors", to_string(dtype));
}

DType type_named(const std::string& name, const JsonPlace& place) {
  for (const Named& type : kTypes) {
    if (type.name == name) return type.dtype;
  }
  raise(Code::Unimplemented, "[Checkpoint] {}: tensors of type '{}' cannot be read",
        place.to_string(), name);
}

// Wide elements first, so that every tensor begins at a multiple of its element's size.
std::vector<std::string> order_of(const std::map<std::string, SafetensorsTensor>& tensors) {
  std::vector<std::string> order;
  for (const auto& [name, tensor] : tensors) order.push_back(name);
  std::stable_sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
    return size_of(tensors.at(a).dtype) > size_of(tensors.at(b).dtype);
  });
  return order;
}

FileJson entry_text(const SafetensorsTensor& tensor, uint64_t offset) {
  return {{"dtype", name_of(tensor.dtype)},
          {"shape", tensor.shape.to_vector()},
          {"data_offsets", {offset, offset + tensor.size}}};
}

std::string with_length(std::string text) {
  while (text.size() % kAlignment != 0) text += ' ';
  if (text.size() > kMaxHeaderBytes) {
    raise(Code::InvalidArgument,
          "[Safetensors] the names and shapes take {} bytes, but one file has at most {}",
          text.size(), kMaxHeaderBytes);
  }
  const uint64_t length = text.size();
  std::string bytes(kLength, '\0');
  std::memcpy(bytes.data(), &length, kLength);
  return bytes + text;
}

}  // namespace

SafetensorsLayout lay_out(const std::map<std::string, SafetensorsTensor>& tensors) {
  SafetensorsLayout layout;
  layout.order = order_of(tensors);
  FileJson text = {{kMetadata, {{"format", "cohort"}}}};
  uint64_t offset = 0;
  for (const std::string& name : layout.order) {
    if (name == kMetadata) {
      raise(Code::InvalidArgument, "[Safetensors] a tensor cannot be called '{}'", name);
    }
    const SafetensorsTensor& tensor = tensors.at(name);
    text[name] = entry_text(tensor, offset);
    layout.entries[name] = {tensor.dtype, tensor.shape, offset, tensor.size};
    offset += tensor.size;
  }
  layout.header = with_length(dump_json(text));
  for (auto& [name, entry] : layout.entries) entry.begin += layout.header.size();
  layout.file_size = layout.header.size() + offset;
  return layout;
}

uint64_t header_size(std::string_view first_bytes, uint64_t file_size, const std::string& file) {
  uint64_t length = 0;
  if (first_bytes.size() < kLength) {
    raise(Code::DataLoss, "[Checkpoint] '{}' has {} bytes, too few for a safetensors file", file,
          file_size);
  }
  std::memcpy(&length, first_bytes.data(), kLength);
  if (length > kMaxHeaderBytes || length > file_size - kLength) {
    raise(Code::DataLoss,
          "[Checkpoint] '{}' of {} bytes is said to begin with a header of {}: it is cut off, or "
          "no safetensors file",
          file, file_size, length);
  }
  return kLength + length;
}

namespace {

struct DataPart {
  uint64_t begin;
  uint64_t end;
  const std::string* name;
};

SafetensorsEntry parse_entry(const FileJson& value, const JsonPlace& place, uint64_t header_bytes,
                             uint64_t file_size) {
  check_object(value, place);
  const DType dtype = type_named(text_field(value, "dtype", place), place);
  const Shape shape = shape_field(value, "shape", place);
  const std::vector<uint64_t> offsets = counts_field(value, "data_offsets", 2, place);
  if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > file_size - header_bytes) {
    raise(Code::DataLoss, "[Checkpoint] {}: data_offsets do not lie in the file",
          place.to_string());
  }
  const uint64_t size = offsets[1] - offsets[0];
  if (bytes_of(dtype, shape) != size) {
    raise(Code::DataLoss, "[Checkpoint] {}: {} of shape {} do not take {} bytes", place.to_string(),
          to_string(dtype), shape.to_string(), size);
  }
  return {dtype, shape, header_bytes + offsets[0], size};
}

// Tensors must not overlap and must cover the whole data section.
void check_gapless(std::vector<DataPart> parts, uint64_t begin, uint64_t end,
                   const std::string& file) {
  std::sort(parts.begin(), parts.end(), [](const DataPart& a, const DataPart& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  for (const DataPart& part : parts) {
    if (part.begin != begin) {
      raise(Code::DataLoss, "[Checkpoint] '{}': the bytes of tensor '{}' {}", file, *part.name,
            part.begin < begin ? "are another one's too" : "come after a gap");
    }
    begin = part.end;
  }
  if (begin != end) {
    raise(Code::DataLoss, "[Checkpoint] '{}' has {} bytes after its last tensor", file,
          end - begin);
  }
}

}  // namespace

SafetensorsEntries parse_header(std::string_view header, uint64_t file_size,
                                const std::string& file) {
  const FileJson text = parse_file_json(header.substr(kLength), file);
  const JsonPlace place{file, {}};
  check_object(text, place);
  SafetensorsEntries entries;
  std::vector<DataPart> parts;
  for (const auto& [name, value] : text.items()) {
    if (name == kMetadata) continue;
    const auto [entry, fresh] =
        entries.emplace(name, parse_entry(value, {file, name}, header.size(), file_size));
    parts.push_back({entry->second.begin, entry->second.begin + entry->second.size, &entry->first});
  }
  check_gapless(std::move(parts), header.size(), file_size, file);
  return entries;
}

}  // namespace cohort::internal
