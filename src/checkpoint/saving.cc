#include "checkpoint/saving.h"

#include <algorithm>
#include <filesystem>

#include "base/log.h"
#include "base/raise.h"
#include "checkpoint/contents.h"
#include "checkpoint/file_names.h"
#include "cohort/checkpoint.h"

namespace cohort {
namespace internal {

std::string full_prefix(std::string_view operation, std::string_view prefix,
                        std::optional<int64_t> step) {
  const std::string name = file_name_of(prefix);
  if (name.empty() || name == "." || name == "..") {
    raise(Code::InvalidArgument,
          "[{}] the prefix '{}' must be a folder and the beginning of a file name: "
          "\"folder/model\"",
          operation, prefix);
  }
  return step ? fmt::format("{}-{}", prefix, *step) : std::string(prefix);
}

Manifest new_manifest(std::optional<int64_t> step) {
  return {.step = step,
          .saved_at_ms = to_ms(std::chrono::system_clock::now()),
          .files = {},
          .tensors = {}};
}

void add_shard(Manifest& manifest, SavedFile file, const WrittenShard& written,
               const std::vector<SaveItem>& items) {
  file.size = written.size;
  file.header_crc32c = written.header_crc32c;
  const size_t index = manifest.files.size();
  manifest.files.push_back(std::move(file));
  for (const SaveItem& item : items) {
    const auto found = written.tensors.find(item.key());
    if (found == written.tensors.end()) {
      raise(Code::Internal, "[Checkpoint] {} did not write tensor '{}'",
            manifest.files[index].device, item.name);
    }
    const Shape& shape = found->second.shape;
    SavedEntry& entry = manifest.tensors[item.name];
    entry.dtype = item.dtype;
    entry.shape = item.part ? item.part->full_shape : shape;
    entry.slices.push_back({.file = index,
                            .key = item.key(),
                            .extent = item.part ? item.part->extent : whole_of(shape),
                            .begin = found->second.begin,
                            .size = found->second.size,
                            .crc32c = found->second.crc32c});
  }
}

namespace {

// What the checkpoint consists of; nothing when it cannot be read, and then nobody can say.
std::vector<SavedFile> files_of(const std::string& prefix) {
  std::vector<SavedFile> files;
  if (!file_exists(manifest_path(prefix))) return files;
  const Status status = capture_status([&] { files = CheckpointFiles(prefix).manifest().files; });
  if (!status.ok()) {
    log_warning("[Checkpoint] the files of '{}' stay, because nobody knows which they are: {}",
                prefix, status.message);
  }
  return files;
}

bool is_named(const std::vector<SavedFile>& files, std::string_view name) {
  return std::any_of(files.begin(), files.end(),
                     [&](const SavedFile& file) { return file.name == name; });
}

// What a process left that died after its files were there, and before its manifest was.
void remove_orphans(const std::string& prefix, const Manifest& manifest) {
  constexpr auto kAge = std::chrono::hours(1);
  const Status status = capture_status([&] {
    for (const auto& entry : std::filesystem::directory_iterator(folder_of(prefix))) {
      const std::string name = entry.path().filename().string();
      if (!is_data_file_of(prefix, name) || is_named(manifest.files, name)) continue;
      const auto age = std::filesystem::file_time_type::clock::now() - entry.last_write_time();
      if (age > kAge) remove_file(entry.path().string());
    }
  });
  if (!status.ok()) log_info("[Checkpoint] beside '{}': {}", prefix, status.message);
}

}  // namespace

std::vector<SavedFile> commit_manifest(const std::string& prefix, const Manifest& manifest) {
  std::vector<SavedFile> replaced = files_of(prefix);
  NewFile file(manifest_path(prefix));
  file.write(manifest_text(manifest));
  file.commit();
  remove_orphans(prefix, manifest);
  std::erase_if(replaced, [&](const SavedFile& old) { return is_named(manifest.files, old.name); });
  return replaced;
}

std::vector<SavedFile> remove_manifest(const std::string& prefix) {
  std::vector<SavedFile> files = files_of(prefix);
  remove_file(manifest_path(prefix));
  return files;
}

std::vector<SavedFile> remove_local_files(const std::string& folder,
                                          const std::vector<SavedFile>& files) {
  std::vector<SavedFile> elsewhere;
  for (const SavedFile& file : files) {
    if (!remove_file(in_folder(folder, file.name))) elsewhere.push_back(file);
  }
  return elsewhere;
}

void write_checkpoint(const std::string& prefix, std::optional<int64_t> step,
                      const std::vector<SaveItem>& items, const std::vector<Tensor>& values,
                      BytesWritten* progress) {
  KeyedTensors tensors;
  for (size_t i = 0; i < items.size(); ++i) tensors[items[i].key()] = values[i];
  const std::string folder = folder_of(prefix);
  remove_abandoned_files(folder, is_checkpoint_file_name);
  const SavedFile file{.name = data_file_name(prefix, random_id(), 0, 1)};
  Manifest manifest = new_manifest(step);
  add_shard(manifest, file, write_shard(in_folder(folder, file.name), tensors, progress), items);
  remove_local_files(folder, commit_manifest(prefix, manifest));
}

}  // namespace internal

bool checkpoint_exists(std::string_view prefix) {
  return internal::file_exists(internal::manifest_path(prefix));
}

void remove_checkpoint(std::string_view prefix) {
  const std::string name(prefix);
  internal::remove_local_files(internal::folder_of(name), internal::remove_manifest(name));
}

}  // namespace cohort
