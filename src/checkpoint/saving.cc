#include "checkpoint/saving.h"

#include <algorithm>

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

void commit_manifest(const std::string& prefix, const Manifest& manifest) {
  NewFile file(manifest_path(prefix));
  file.write(manifest_text(manifest));
  file.commit();
}

}  // namespace

void save_files(const FilesToSave& save) {
  settle_abandoned_intents(folder_of(save.prefix), save.remove);
  std::vector<SavedFile> noted = files_of(save.prefix);
  noted.insert(noted.end(), save.files.begin(), save.files.end());
  SaveIntent intent(save.prefix, save.id, std::move(noted));
  const Status status = capture_status([&] { commit_manifest(save.prefix, save.write()); });
  intent.settle(save.remove);
  throw_if_error(status);
}

void remove_saved(const std::string& prefix, const SaveIntent::Remove& remove) {
  const std::vector<SavedFile> files = files_of(prefix);
  if (files.empty()) {
    remove_file(manifest_path(prefix));
    return;
  }
  // A manifest reads as a note does: under such a name it tells the next save of the files, should
  // this program die before they are gone.
  const std::string note = fmt::format("{}.{}{}", prefix, random_id(), kIntentEnding);
  if (rename_file(manifest_path(prefix), note) && remove(files)) remove_file(note);
}

std::vector<SavedFile> remove_local_files(const std::string& folder,
                                          const std::vector<SavedFile>& files) {
  std::vector<SavedFile> elsewhere;
  for (const SavedFile& file : files) {
    if (!remove_file(in_folder(folder, file.name))) elsewhere.push_back(file);
  }
  return elsewhere;
}

namespace {

// Whether all are gone. What another task wrote may be on its disk.
bool remove_here(const std::string& folder, const std::vector<SavedFile>& files) {
  return std::ranges::all_of(remove_local_files(folder, files),
                             [](const SavedFile& file) { return file.device.empty(); });
}

}  // namespace

void write_checkpoint(const std::string& prefix, std::optional<int64_t> step,
                      const std::vector<SaveItem>& items, const std::vector<Tensor>& values,
                      BytesWritten* progress) {
  KeyedTensors tensors;
  for (size_t i = 0; i < items.size(); ++i) tensors[items[i].key()] = values[i];
  const std::string folder = folder_of(prefix);
  const std::string id = random_id();
  const SavedFile file{.name = data_file_name(prefix, id, 0, 1)};
  remove_abandoned_files(folder, is_checkpoint_file_name);
  save_files({.prefix = prefix,
              .id = id,
              .files = {file},
              .remove = [&](const auto& files) { return remove_here(folder, files); },
              .write =
                  [&] {
                    Manifest manifest = new_manifest(step);
                    add_shard(manifest, file,
                              write_shard(in_folder(folder, file.name), tensors, progress), items);
                    return manifest;
                  }});
}

}  // namespace internal

bool checkpoint_exists(std::string_view prefix) {
  return internal::file_exists(internal::manifest_path(prefix));
}

void remove_checkpoint(std::string_view prefix) {
  const std::string name(prefix);
  internal::remove_saved(name, [&](const std::vector<internal::SavedFile>& files) {
    return internal::remove_here(internal::folder_of(name), files);
  });
}

}  // namespace cohort
