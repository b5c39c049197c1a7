#include "checkpoint/manifest.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "base/raise.h"
#include "checkpoint/json_fields.h"
#include "data/byte_source.h"

namespace cohort::internal {
namespace {

using data::internal::crc32c;

constexpr int64_t kVersion = 1;
constexpr std::string_view kFormat = "cohort checkpoint";
// The text before what the checksum is of: {"crc32c":"1a2b3c4d",
constexpr std::string_view kBeforeChecksum = "{\"crc32c\":\"";
constexpr size_t kChecksumDigits = 8;
constexpr std::string_view kAfterChecksum = "\",";
constexpr size_t kChecked = kBeforeChecksum.size() + kChecksumDigits + kAfterChecksum.size();
// What hostile files may ask of memory and time; checking slices takes the square of their number.
constexpr size_t kMaxFiles = 1 << 16;
constexpr size_t kMaxSlices = 4096;

FileJson to_json(const SavedSlice& slice, const Shape& whole) {
  FileJson value = {{"file", slice.file},
                    {"key", slice.key},
                    {"begin", slice.begin},
                    {"size", slice.size},
                    {"crc32c", checksum_text(slice.crc32c)}};
  if (slice.extent.shape == whole) return value;
  value["offset"] = slice.extent.offset;
  value["shape"] = slice.extent.shape.to_vector();
  return value;
}

FileJson to_json(const SavedEntry& entry) {
  FileJson slices = FileJson::array();
  for (const SavedSlice& slice : entry.slices) slices.push_back(to_json(slice, entry.shape));
  return {{"dtype", to_string(entry.dtype)},
          {"shape", entry.shape.to_vector()},
          {"slices", std::move(slices)}};
}

FileJson to_json(const SavedFile& file) {
  return {{"name", file.name},
          {"size", file.size},
          {"header_crc32c", checksum_text(file.header_crc32c)},
          {"device", file.device}};
}

FileJson to_json(const Manifest& manifest) {
  FileJson value = {{"format", kFormat},
                    {"version", kVersion},
                    {"saved_at_ms", manifest.saved_at_ms},
                    {"files", FileJson::array()},
                    {"tensors", FileJson::object()}};
  if (manifest.step) value["step"] = *manifest.step;
  for (const SavedFile& file : manifest.files) value["files"].push_back(to_json(file));
  for (const auto& [name, entry] : manifest.tensors) value["tensors"][name] = to_json(entry);
  return value;
}

// Reads one manifest, for one call of parse_manifest().
class ManifestParser {
 public:
  ManifestParser(const FileJson& text, const std::string& file) : text_(text), file_(file) {}

  Manifest parse() {
    const JsonPlace place{file_, {}};
    check_object(text_, place);
    check_version(place);
    if (text_.contains("step")) manifest_.step = integer("step", place);
    manifest_.saved_at_ms = integer("saved_at_ms", place);
    parse_files(field(text_, "files", place));
    const FileJson& tensors = field(text_, "tensors", place);
    check_object(tensors, place);
    for (const auto& [name, value] : tensors.items()) {
      manifest_.tensors[name] = parse_entry(value, {file_, name});
    }
    return std::move(manifest_);
  }

 private:
  void check_version(const JsonPlace& place) const {
    if (text_field(text_, "format", place) != kFormat) {
      raise(Code::DataLoss, "[Checkpoint] '{}' is not the manifest of a checkpoint", file_);
    }
    const uint64_t version = count_field(text_, "version", place);
    if (version == kVersion) return;
    raise(Code::Unimplemented,
          "[Checkpoint] '{}' has version {} of the format; this program reads version {}", file_,
          version, kVersion);
  }

  int64_t integer(std::string_view name, const JsonPlace& place) const {
    const FileJson& value = field(text_, name, place);
    const bool fits =
        value.is_number_integer() &&
        (!value.is_number_unsigned() ||
         value.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
    if (fits) return value.get<int64_t>();
    raise(Code::DataLoss, "[Checkpoint] '{}': \"{}\" must be a whole number", file_, name);
  }

  void parse_files(const FileJson& files) {
    if (!files.is_array() || files.size() > kMaxFiles) {
      raise(Code::DataLoss, "[Checkpoint] '{}': \"files\" must be a list of at most {} files",
            file_, kMaxFiles);
    }
    for (const FileJson& value : files) {
      const JsonPlace place{file_, {}};
      check_object(value, place);
      manifest_.files.push_back({.name = text_field(value, "name", place),
                                 .size = count_field(value, "size", place),
                                 .header_crc32c = checksum_field(value, "header_crc32c", place),
                                 .device = text_field(value, "device", place)});
      check_name(manifest_.files.back().name);
    }
    check_names_differ();
    unclaimed_.resize(manifest_.files.size());
    for (size_t i = 0; i < unclaimed_.size(); ++i) unclaimed_[i] = manifest_.files[i].size;
  }

  void check_names_differ() const {
    std::set<std::string_view> names;
    for (const SavedFile& file : manifest_.files) {
      if (names.insert(file.name).second) continue;
      raise(Code::DataLoss, "[Checkpoint] '{}' lists the file '{}' twice", file_, file.name);
    }
  }

  // A manifest speaks of the files beside it, and of no others.
  void check_name(const std::string& name) const {
    const bool plain = !name.empty() && name != "." && name != ".." &&
                       name.find('/') == std::string::npos && name.find('\0') == std::string::npos;
    if (plain) return;
    raise(Code::DataLoss, "[Checkpoint] '{}' names '{}', which is not a file of its directory",
          file_, name);
  }

  SavedEntry parse_entry(const FileJson& value, const JsonPlace& place) {
    check_object(value, place);
    SavedEntry entry{.dtype = dtype_field(value, place),
                     .shape = shape_field(value, "shape", place),
                     .slices = {}};
    const FileJson& slices = field(value, "slices", place);
    if (!slices.is_array() || slices.empty() || slices.size() > kMaxSlices) {
      raise(Code::DataLoss, "[Checkpoint] {}: \"slices\" must be a list of 1 to {} slices",
            place.to_string(), kMaxSlices);
    }
    for (const FileJson& slice : slices) entry.slices.push_back(parse_slice(slice, entry, place));
    check_tiling(entry, place);
    return entry;
  }

  static DType dtype_field(const FileJson& value, const JsonPlace& place) {
    const std::string name = text_field(value, "dtype", place);
    DType dtype = kFloat32;
    const bool known = capture_status([&] { dtype = parse_dtype(name); }).ok();
    if (known && dtype != kResource) return dtype;
    raise(Code::DataLoss, "[Checkpoint] {}: there is no dtype '{}'", place.to_string(), name);
  }

  SavedSlice parse_slice(const FileJson& value, const SavedEntry& entry, const JsonPlace& place) {
    check_object(value, place);
    SavedSlice slice{.file = count_field(value, "file", place),
                     .key = text_field(value, "key", place),
                     .extent = whole_of(entry.shape),
                     .begin = count_field(value, "begin", place),
                     .size = count_field(value, "size", place),
                     .crc32c = checksum_field(value, "crc32c", place)};
    if (value.contains("offset")) {
      slice.extent = {shape_field(value, "offset", place).to_vector(),
                      shape_field(value, "shape", place)};
    }
    check_slice(slice, entry, place);
    return slice;
  }

  void check_slice(const SavedSlice& slice, const SavedEntry& entry, const JsonPlace& place) {
    if (slice.file >= manifest_.files.size()) {
      raise(Code::DataLoss, "[Checkpoint] {}: there is no file {}", place.to_string(), slice.file);
    }
    if (!lies_in(slice.extent, entry.shape)) {
      raise(Code::DataLoss, "[Checkpoint] {}: a slice does not lie in the shape {}",
            place.to_string(), entry.shape.to_string());
    }
    const uint64_t file_size = manifest_.files[slice.file].size;
    if (slice.size > file_size || slice.begin > file_size - slice.size) {
      raise(Code::DataLoss,
            "[Checkpoint] {}: {} bytes from byte {} on do not lie in '{}', which has {} bytes",
            place.to_string(), slice.size, slice.begin, manifest_.files[slice.file].name,
            file_size);
    }
    if (entry.dtype != kString && slice.size != bytes_of(entry.dtype, slice.extent.shape)) {
      raise(Code::DataLoss, "[Checkpoint] {}: {} elements of shape {} do not take {} bytes",
            place.to_string(), to_string(entry.dtype), slice.extent.shape.to_string(), slice.size);
    }
    // No byte belongs to two tensors, so that a small file cannot ask for much memory.
    uint64_t& left = unclaimed_[slice.file];
    if (slice.size > left) {
      raise(Code::DataLoss, "[Checkpoint] {}: '{}' has fewer bytes than its tensors",
            place.to_string(), manifest_.files[slice.file].name);
    }
    left -= slice.size;
  }

  static void check_tiling(const SavedEntry& entry, const JsonPlace& place) {
    std::vector<Extent> extents;
    for (const SavedSlice& slice : entry.slices) extents.push_back(slice.extent);
    if (entry.dtype == kString && extents.size() > 1) {
      raise(Code::DataLoss, "[Checkpoint] {}: a tensor of strings must have one slice, got {}",
            place.to_string(), extents.size());
    }
    if (!tile(extents, entry.shape)) {
      raise(Code::DataLoss, "[Checkpoint] {}: the {} slices do not make up the shape {}",
            place.to_string(), extents.size(), entry.shape.to_string());
    }
  }

  const FileJson& text_;
  const std::string& file_;
  Manifest manifest_;
  std::vector<uint64_t> unclaimed_;  // bytes of each file that no slice has taken yet
};

void check_checksum(std::string_view text, const std::string& file) {
  const bool form = text.size() >= kChecked && text.starts_with(kBeforeChecksum) &&
                    text.substr(0, kChecked).ends_with(kAfterChecksum);
  if (!form) {
    raise(Code::DataLoss, "[Checkpoint] '{}' does not begin like the manifest of a checkpoint",
          file);
  }
  const std::string_view said = text.substr(kBeforeChecksum.size(), kChecksumDigits);
  const std::string found = checksum_text(crc32c(text.substr(kChecked)));
  if (said == found) return;
  raise(Code::DataLoss, "[Checkpoint] '{}' is damaged or cut off: its checksum is {}, expected {}",
        file, found, said);
}

}  // namespace

int64_t to_ms(std::chrono::system_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

std::chrono::system_clock::time_point from_ms(int64_t ms) {
  const int64_t most = to_ms(std::chrono::system_clock::time_point::max());
  return std::chrono::system_clock::time_point(
      std::chrono::milliseconds(std::clamp(ms, -most, most)));
}

std::string manifest_text(const Manifest& manifest) {
  // Without its first brace, which stands before the checksum.
  const std::string checked = dump_json(to_json(manifest)).substr(1) + "\n";
  return fmt::format("{}{}{}{}", kBeforeChecksum, checksum_text(crc32c(checked)), kAfterChecksum,
                     checked);
}

Manifest parse_manifest(std::string_view text, const std::string& file) {
  check_checksum(text, file);
  return ManifestParser(parse_file_json(text, file), file).parse();
}

}  // namespace cohort::internal
