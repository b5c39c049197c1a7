#include "checkpoint/checkpoint_contents.h"

#include <algorithm>
#include <filesystem>

#include "base/raise.h"
#include "base/text.h"
#include "checkpoint/durable_file.h"
#include "cohort/checkpoint.h"
#include "cohort/device.h"
#include "data/byte_source.h"
#include "tensor/memory.h"

namespace cohort::internal {
namespace {

using data::internal::crc32c;

constexpr uint64_t kMaxManifestBytes = 64 << 20;

std::string missing_checkpoint(std::string_view prefix) {
  const std::string directory = directory_of(prefix);
  std::error_code ignored;
  std::vector<std::string> there = checkpoints_in(directory, ignored);
  std::sort(there.begin(), there.end());
  constexpr size_t kMaxListed = 10;
  if (there.size() > kMaxListed) there.resize(kMaxListed);
  return fmt::format("[Checkpoint] there is no checkpoint '{}'; '{}' has {}", prefix, directory,
                     quoted_list(there));
}

Manifest read_manifest(const std::string& prefix) {
  const std::string path = manifest_path(prefix);
  if (!file_exists(path)) throw Error(Code::NotFound, missing_checkpoint(prefix));
  return parse_manifest(ReadFile(path).read_all(kMaxManifestBytes), path);
}

// Names of tensors whose last part is the same ("layer/kernel" for "model/layer/kernel"), otherwise
// a name that differs by a typing error.
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
  return guess.empty() ? fmt::format("; the checkpoint has {} other tensors", all.size()) : guess;
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

}  // namespace

std::vector<std::string> checkpoints_in(const std::string& directory, std::error_code& failed) {
  const std::string ending = manifest_path("");
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory, failed)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(ending)) names.push_back(name.substr(0, name.size() - ending.size()));
  }
  return names;
}

std::shared_ptr<const ShardFile> LocalSource::opened(const SavedFile& file) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const ShardFile>& entry = files_[file.name];
  if (!entry) {
    entry = std::make_shared<ShardFile>(in_directory(directory_, file.name), file.size,
                                        file.header_crc32c);
  }
  return entry;
}

void LocalSource::check(const SavedFile& file, const SavedSlice& slice) {
  const std::shared_ptr<const ShardFile> shard = opened(file);
  const auto found = shard->entries().find(slice.key);
  const bool same = found != shard->entries().end() && found->second.begin == slice.begin &&
                    found->second.size == slice.size;
  if (same) return;
  raise(Code::DataLoss,
        "[Checkpoint] '{}' does not hold tensor '{}' where the manifest says: the file is damaged, "
        "or belongs to another checkpoint",
        shard->path(), slice.key);
}

void LocalSource::read(const SavedFile& file, const SavedSlice& slice, std::span<std::byte> into) {
  opened(file)->read(slice.begin, into);
}

CheckpointFiles::CheckpointFiles(std::string_view prefix)
    : prefix_(prefix),
      manifest_(read_manifest(prefix_)),
      local_(std::make_unique<LocalSource>(directory_of(prefix_))) {}

std::string CheckpointFiles::path_of(const SavedFile& file) const {
  return in_directory(directory_of(prefix_), file.name);
}

const SavedEntry& CheckpointFiles::entry(std::string_view name) const {
  const auto found = manifest_.tensors.find(std::string(name));
  if (found != manifest_.tensors.end()) return found->second;
  raise(Code::NotFound, "[Checkpoint] '{}' has no tensor '{}'{}", prefix_, name,
        near_names(name, manifest_.tensors));
}

Tensor CheckpointFiles::read(std::string_view name, const Extent& part, SliceSource& source) const {
  const SavedEntry& saved = entry(name);
  if (!lies_in(part, saved.shape)) {
    raise(Code::InvalidArgument,
          "[Checkpoint] tensor '{}' in '{}' has shape {}, which does not contain a part of shape "
          "{} at ({})",
          name, prefix_, saved.shape.to_string(), part.shape.to_string(),
          fmt::join(part.offset, ", "));
  }
  if (saved.dtype == kString && part.shape != saved.shape) {
    raise(Code::Unimplemented, "[Checkpoint] tensor '{}' holds strings and can only be read whole",
          name);
  }
  std::vector<const SavedSlice*> slices;
  for (const SavedSlice& slice : saved.slices) {
    const bool needed =
        saved.dtype == kString || slice.extent == part || overlap(slice.extent, part);
    if (needed) slices.push_back(&slice);
  }
  for (const SavedSlice* slice : slices) source.check(manifest_.files[slice->file], *slice);
  const auto fetch = [&](const SavedSlice& slice, std::span<std::byte> into) {
    const SavedFile& file = manifest_.files[slice.file];
    source.read(file, slice, into);
    check_checksum(into, slice, name, path_of(file));
  };
  if (saved.dtype == kString) {
    std::string bytes(slices[0]->size, '\0');
    fetch(*slices[0], std::as_writable_bytes(std::span(bytes)));
    return decode_strings(bytes, saved.shape,
                          fmt::format("[Checkpoint] tensor '{}' in '{}'", name, prefix_));
  }
  const WritableTensor made = allocate_tensor(saved.dtype, part.shape);
  for (const SavedSlice* slice : slices) {
    if (slice->extent == part) {
      fetch(*slice, {made.data, slice->size});
      continue;
    }
    std::vector<std::byte> bytes(slice->size);  // all, because the checksum is the whole slice's
    fetch(*slice, bytes);
    copy_overlap({slice->extent, bytes.data()}, {part, made.data},
                 static_cast<size_t>(size_of(saved.dtype)));
  }
  return made.tensor;
}

bool CheckpointFiles::is_here(const SavedFile& file) const {
  if (file_exists(path_of(file))) return true;
  // A task of another process may have written the file to a disk of its own.
  const std::optional<DeviceName> device = DeviceName::try_parse(file.device);
  return !device || !device->job || *device->job == "localhost";
}

void CheckpointFiles::verify() const {
  std::vector<bool> here;
  for (const SavedFile& file : manifest_.files) here.push_back(is_here(file));
  LocalSource fresh(local_->directory());
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
  for (const SavedFile& file : manifest_.files) {
    if (is_here(file)) (void)ShardFile(path_of(file), file.size, file.header_crc32c);
  }
}

}  // namespace cohort::internal

namespace cohort {

CheckpointReader::CheckpointReader(std::string_view prefix)
    : files_(std::make_shared<internal::CheckpointFiles>(prefix)) {}

const std::string& CheckpointReader::prefix() const { return files_->prefix(); }
std::optional<int64_t> CheckpointReader::step() const { return files_->manifest().step; }

std::chrono::system_clock::time_point CheckpointReader::saved_at() const {
  return internal::from_ms(files_->manifest().saved_at_ms);
}

std::vector<SavedTensor> CheckpointReader::tensors() const {
  std::vector<SavedTensor> tensors;
  for (const auto& [name, entry] : files_->manifest().tensors) {
    tensors.push_back({name, entry.dtype, entry.shape});
  }
  return tensors;
}

bool CheckpointReader::contains(std::string_view name) const {
  return files_->manifest().tensors.contains(std::string(name));
}

std::vector<std::string> CheckpointReader::files() const {
  std::vector<std::string> paths;
  for (const auto& file : files_->manifest().files) paths.push_back(files_->path_of(file));
  return paths;
}

Tensor CheckpointReader::read(std::string_view name) const { return files_->read(name); }

Tensor CheckpointReader::read_slice(std::string_view name, const std::vector<int64_t>& offset,
                                    const Shape& shape) const {
  return files_->read(name, {offset, shape});
}

void CheckpointReader::verify() const { files_->verify(); }

void save_safetensors(const std::string& path, const std::map<std::string, Tensor>& tensors) {
  for (const auto& [name, tensor] : tensors) {
    if (is_numeric(tensor.dtype())) continue;
    internal::raise(Code::InvalidArgument,
                    "[Safetensors] tensor '{}' has dtype {}; the format stores only numbers", name,
                    to_string(tensor.dtype()));
  }
  const std::string name = internal::file_name_of(path);
  internal::remove_abandoned_files(internal::directory_of(path),
                                   [&](std::string_view left) { return left == name; });
  internal::write_shard(path, tensors);
}

std::map<std::string, Tensor> load_safetensors(const std::string& path) {
  const internal::ReadFile file(path);
  std::map<std::string, Tensor> tensors;
  for (const auto& [name, entry] :
       internal::parse_header(internal::read_header(file), file.size(), path)) {
    const internal::WritableTensor made = internal::allocate_tensor(entry.dtype, entry.shape);
    file.read(entry.begin, {made.data, entry.size});
    tensors[name] = made.tensor;
  }
  return tensors;
}

}  // namespace cohort
