#include "checkpoint/contents.h"

#include <algorithm>
#include <filesystem>

#include "base/raise.h"
#include "checkpoint/file_names.h"
#include "checkpoint/tensor_bytes.h"
#include "cohort/device.h"
#include "data/crc32c.h"
#include "tensor/memory.h"
#include "topology/text.h"

namespace cohort::internal {
namespace {

using data::internal::crc32c;

constexpr uint64_t kMaxManifestBytes = 64 << 20;

std::string missing_checkpoint(std::string_view prefix) {
  const std::string folder = folder_of(prefix);
  const std::string ending = manifest_path("");
  std::vector<std::string> there;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(ending)) there.push_back(name.substr(0, name.size() - ending.size()));
  }
  std::sort(there.begin(), there.end());
  constexpr size_t kMaxListed = 10;
  if (there.size() > kMaxListed) there.resize(kMaxListed);
  return fmt::format("[Checkpoint] there is no checkpoint '{}'; '{}' has {}", prefix, folder,
                     quoted_list(there));
}

Manifest read_manifest(const std::string& prefix) {
  const std::string path = manifest_path(prefix);
  if (!file_exists(path)) throw Error(Code::NotFound, missing_checkpoint(prefix));
  return parse_manifest(ReadFile(path).read_all(kMaxManifestBytes), path);
}

std::string_view last_part(std::string_view name) {
  return name.substr(name.rfind('/') + 1);  // npos + 1 is 0
}

// Those that end alike ("layer/kernel" for "model/layer/kernel"), or differ by a slip of the pen.
std::string near_names(std::string_view name, const std::map<std::string, SavedEntry>& entries) {
  constexpr size_t kMaxNamed = 5;
  std::vector<std::string> all;
  std::vector<std::string> alike;
  for (const auto& [known, entry] : entries) {
    all.push_back(known);
    if (alike.size() < kMaxNamed && last_part(known) == last_part(name)) alike.push_back(known);
  }
  if (!alike.empty()) return "; it has " + quoted_list(alike);
  const std::string guess = did_you_mean(name, all);
  return guess.empty() ? fmt::format("; it has {} others", all.size()) : guess;
}

void check_checksum(std::span<const std::byte> bytes, const SavedSlice& slice,
                    std::string_view tensor, const std::string& path) {
  const uint32_t found = crc32c({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (found == slice.crc32c) return;
  raise(Code::DataLoss,
        "[Checkpoint] tensor '{}' in '{}' is damaged: the checksum of its bytes is {:08x}, the "
        "manifest says {:08x}",
        tensor, path, found, slice.crc32c);
}

// The slice's key and place are what the file says too.
void check_label(const SavedSlice& slice, const ShardFile& file) {
  const auto found = file.entries().find(slice.key);
  const bool same = found != file.entries().end() && found->second.begin == slice.begin &&
                    found->second.size == slice.size;
  if (same) return;
  raise(Code::DataLoss, "[Checkpoint] '{}' has no tensor '{}' where the manifest says", file.path(),
        slice.key);
}

}  // namespace

std::shared_ptr<const ShardFile> LocalSource::opened(const SavedFile& file) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const ShardFile>& entry = files_[file.name];
  if (!entry) {
    entry =
        std::make_shared<ShardFile>(in_folder(folder_, file.name), file.size, file.header_crc32c);
  }
  return entry;
}

void LocalSource::check(const SavedFile& file, const SavedSlice& slice) {
  check_label(slice, *opened(file));
}

void LocalSource::read(const SavedFile& file, const SavedSlice& slice, std::span<std::byte> into) {
  opened(file)->read(slice.begin, into);
}

CheckpointFiles::CheckpointFiles(std::string_view prefix)
    : prefix_(prefix),
      manifest_(read_manifest(prefix_)),
      local_(std::make_unique<LocalSource>(folder_of(prefix_))) {}

std::string CheckpointFiles::path_of(const SavedFile& file) const {
  return in_folder(folder_of(prefix_), file.name);
}

const SavedEntry& CheckpointFiles::entry(std::string_view name) const {
  const auto found = manifest_.tensors.find(std::string(name));
  if (found != manifest_.tensors.end()) return found->second;
  raise(Code::NotFound, "[Checkpoint] '{}' has no tensor '{}'{}", prefix_, name,
        near_names(name, manifest_.tensors));
}

Tensor CheckpointFiles::read(std::string_view name) const {
  return read(name, whole_of(entry(name).shape));
}

Tensor CheckpointFiles::read(std::string_view name, const Extent& part) const {
  return read(name, part, *local_);
}

namespace {

// Reads one tensor, or part of it; exists for the time of one read().
class TensorAssembly {
 public:
  TensorAssembly(const CheckpointFiles& files, std::string_view name, SliceSource& source)
      : files_(files), name_(name), entry_(files.entry(name)), source_(source) {}

  Tensor strings() {
    check(entry_.slices[0]);
    std::string bytes(entry_.slices[0].size, '\0');
    fetch(entry_.slices[0], std::as_writable_bytes(std::span(bytes)));
    return decode_strings(bytes, entry_.shape,
                          fmt::format("[Checkpoint] tensor '{}' in '{}'", name_, files_.prefix()));
  }

  Tensor numbers(const Extent& part) {
    for (const SavedSlice& slice : entry_.slices) {
      if (slice.extent == part || overlap(slice.extent, part)) check(slice);
    }
    const WritableTensor made = allocate_tensor(entry_.dtype, part.shape);
    for (const SavedSlice& slice : entry_.slices) {
      if (slice.extent == part) {
        fetch(slice, {made.data, slice.size});
      } else if (overlap(slice.extent, part)) {
        fetch_part(slice, {part, made.data});
      }
    }
    return made.tensor;
  }

 private:
  const SavedFile& file_of(const SavedSlice& slice) const {
    return files_.manifest().files[slice.file];
  }
  void check(const SavedSlice& slice) { source_.check(file_of(slice), slice); }

  void fetch(const SavedSlice& slice, std::span<std::byte> into) {
    source_.read(file_of(slice), slice, into);
    check_checksum(into, slice, name_, files_.path_of(file_of(slice)));
  }

  // The checksum is the whole slice's, so all of it is read.
  void fetch_part(const SavedSlice& slice, const Box<std::byte>& to) {
    std::vector<std::byte> bytes(slice.size);
    fetch(slice, bytes);
    copy_overlap({slice.extent, bytes.data()}, to, static_cast<size_t>(size_of(entry_.dtype)));
  }

  const CheckpointFiles& files_;
  const std::string_view name_;
  const SavedEntry& entry_;
  SliceSource& source_;
};

}  // namespace

Tensor CheckpointFiles::read(std::string_view name, const Extent& part, SliceSource& source) const {
  const SavedEntry& saved = entry(name);
  if (!lies_in(part, saved.shape)) {
    raise(Code::InvalidArgument,
          "[Checkpoint] tensor '{}' in '{}' has shape {}, which has no part of shape {} at ({})",
          name, prefix_, saved.shape.to_string(), part.shape.to_string(),
          fmt::join(part.offset, ", "));
  }
  TensorAssembly assembly(*this, name, source);
  if (saved.dtype != kString) return assembly.numbers(part);
  if (part.shape == saved.shape) return assembly.strings();
  raise(Code::Unimplemented, "[Checkpoint] tensor '{}' holds strings, which have no parts", name);
}

namespace {

// Whether a task of another process wrote the file, perhaps to a disk of its own.
bool may_be_elsewhere(const SavedFile& file) {
  const std::optional<DeviceName> device = DeviceName::try_parse(file.device);
  return device && device->job && *device->job != "localhost";
}

}  // namespace

template <typename Check>
void CheckpointFiles::for_each_local_file(const Check& check) const {
  for (size_t i = 0; i < manifest_.files.size(); ++i) {
    const SavedFile& file = manifest_.files[i];
    if (file_exists(path_of(file)) || !may_be_elsewhere(file)) check(i, file);
  }
}

void CheckpointFiles::verify() const {
  std::vector<bool> here(manifest_.files.size());
  for_each_local_file([&](size_t index, const SavedFile&) { here[index] = true; });
  LocalSource fresh(local_->folder());
  for (const auto& [name, saved] : manifest_.tensors) {
    for (const SavedSlice& slice : saved.slices) {
      if (!here[slice.file]) continue;
      const SavedFile& file = manifest_.files[slice.file];
      fresh.check(file, slice);
      std::vector<std::byte> bytes(slice.size);
      fresh.read(file, slice, bytes);
      check_checksum(bytes, slice, name, path_of(file));
    }
  }
}

void CheckpointFiles::verify_sizes() const {
  for_each_local_file([&](size_t, const SavedFile& file) {
    (void)ShardFile(path_of(file), file.size, file.header_crc32c);
  });
}

}  // namespace cohort::internal
