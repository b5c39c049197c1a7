#include "checkpoint/json_fields.h"

#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/raise.h"

namespace cohort::internal {

std::string JsonPlace::to_string() const {
  return tensor.empty() ? fmt::format("'{}'", file)
                        : fmt::format("tensor '{}' in '{}'", tensor, file);
}

FileJson parse_file_json(std::string_view text, std::string_view file) {
  FileJson value;
  const Status status = capture_status([&] {
    value = parse_sorted_json(text, {"Checkpoint", fmt::format("'{}'", file)});
  });
  if (!status.ok()) throw Error(Code::DataLoss, status.message);
  return value;
}

std::string dump_json(const FileJson& value) {
  try {
    return value.dump();
  } catch (const FileJson::type_error& error) {
    raise(Code::InvalidArgument, "[Checkpoint] names must be UTF-8: {}", error.what());
  }
}

namespace {

[[noreturn]] void raise_field(std::string_view name, std::string_view expected,
                              const JsonPlace& place) {
  raise(Code::DataLoss, "[Checkpoint] {}: \"{}\" must be {}", place.to_string(), name, expected);
}

}  // namespace

void check_object(const FileJson& value, const JsonPlace& place) {
  if (value.is_object()) return;
  raise(Code::DataLoss, "[Checkpoint] {} is {}; expected an object", place.to_string(),
        kind_of(value));
}

const FileJson& field(const FileJson& object, std::string_view name, const JsonPlace& place) {
  const auto found = object.find(name);
  if (found == object.end()) raise_field(name, "there", place);
  return *found;
}

std::string text_field(const FileJson& object, std::string_view name, const JsonPlace& place) {
  const FileJson& value = field(object, name, place);
  if (!value.is_string()) raise_field(name, "a text", place);
  return value.get<std::string>();
}

uint64_t count_field(const FileJson& object, std::string_view name, const JsonPlace& place) {
  const FileJson& value = field(object, name, place);
  if (!value.is_number_unsigned()) raise_field(name, "a whole number", place);
  return value.get<uint64_t>();
}

uint32_t checksum_field(const FileJson& object, std::string_view name, const JsonPlace& place) {
  const std::string text = text_field(object, name, place);
  uint32_t checksum = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, checksum, 16);
  if (text.size() != 8 || error != std::errc() || stop != end) {
    raise_field(name, "8 hexadecimal digits", place);
  }
  return checksum;
}

std::vector<uint64_t> counts_field(const FileJson& object, std::string_view name, size_t most,
                                   const JsonPlace& place) {
  const FileJson& value = field(object, name, place);
  if (!value.is_array() || value.size() > most) {
    raise_field(name, fmt::format("a list of at most {} numbers", most), place);
  }
  std::vector<uint64_t> counts;
  for (const FileJson& count : value) {
    if (!count.is_number_unsigned()) raise_field(name, "a list of whole numbers", place);
    counts.push_back(count.get<uint64_t>());
  }
  return counts;
}

Shape shape_field(const FileJson& object, std::string_view name, const JsonPlace& place) {
  std::vector<int64_t> sizes;
  for (const uint64_t size : counts_field(object, name, Shape::kMaxRank, place)) {
    if (size > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      raise_field(name, "a list of sizes", place);
    }
    sizes.push_back(static_cast<int64_t>(size));
  }
  const Shape shape(sizes);
  if (!capture_status([&] { (void)shape.num_elements(); }).ok()) {
    raise_field(name, "the shape of a tensor", place);
  }
  return shape;
}

std::string checksum_text(uint32_t checksum) { return fmt::format("{:08x}", checksum); }

uint64_t bytes_of(DType dtype, const Shape& shape) {
  uint64_t bytes = static_cast<uint64_t>(size_of(dtype));
  bool too_many = false;
  bool empty = false;
  for (const int64_t size : shape) {
    empty |= size == 0;
    too_many |= __builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes);
  }
  if (empty) return 0;
  // Sizes count elements in int64.
  const auto most = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  return too_many || bytes > most ? std::numeric_limits<uint64_t>::max() : bytes;
}

}  // namespace cohort::internal
