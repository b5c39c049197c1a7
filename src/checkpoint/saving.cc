#include "checkpoint/saving.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/log.h"
#include "base/raise.h"
#include "checkpoint/checkpoint_contents.h"

namespace cohort {
namespace internal {

std::string full_prefix(std::string_view operation, std::string_view prefix,
                        std::optional<int64_t> step) {
  const std::string name = file_name_of(prefix);
  if (name.empty() || name == "." || name == "..") {
    raise(Code::InvalidArgument,
          "[{}] the prefix '{}' must be a directory and the beginning of a file name: "
          "\"directory/model\"",
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
    SavedSlice slice = found->second;
    SavedEntry& entry = manifest.tensors[item.name];
    entry.dtype = item.dtype;
    entry.shape = item.part ? item.part->full_shape : slice.extent.shape;
    slice.file = index;
    if (item.part) slice.extent = item.part->extent;
    entry.slices.push_back(std::move(slice));
  }
}

namespace {

// The files of the checkpoint; none when its manifest cannot be read.
std::vector<SavedFile> files_of(const std::string& prefix) {
  std::vector<SavedFile> files;
  if (!file_exists(manifest_path(prefix))) return files;
  const Status status = capture_status([&] { files = CheckpointFiles(prefix).manifest().files; });
  if (!status.ok()) {
    log_warning("[Checkpoint] cannot remove the files of '{}', because their names are unknown: {}",
                prefix, status.message);
  }
  return files;
}

void commit_manifest(const std::string& prefix, const Manifest& manifest) {
  NewFile file(manifest_path(prefix));
  file.write(manifest_text(manifest));
  file.commit();
}

// Whether all are gone. What another task wrote may be on its disk.
bool remove_here(const std::string& directory, const std::vector<SavedFile>& files) {
  return std::ranges::all_of(remove_local_files(directory, files),
                             [](const SavedFile& file) { return file.device.empty(); });
}

constexpr uint64_t kMaxBytes = uint64_t{64} << 20;

// "directory/model-7" of "directory/model-7.0123456789abcdef.saving".
std::string prefix_of(const std::string& path) {
  const size_t end = path.size() - kIntentEnding.size();
  return path.substr(0, path.rfind('.', end - 1));
}

// Those that a checkpoint consists of: it was complete when its program died.
std::set<std::string> files_in_use(const std::string& prefix) {
  std::set<std::string> names;
  if (!file_exists(manifest_path(prefix))) return names;
  const CheckpointFiles files(prefix);
  for (const SavedFile& file : files.manifest().files) names.insert(file.name);
  return names;
}

bool is_named(const std::vector<SavedFile>& files, std::string_view name) {
  return std::ranges::any_of(files, [&](const SavedFile& file) { return file.name == name; });
}

// Removes the files that no checkpoint needs. Returns whether all of them are gone.
bool clear(const std::string& prefix, std::vector<SavedFile> files,
           const SaveIntent::Remove& remove) {
  const std::set<std::string> used = files_in_use(prefix);
  std::erase_if(files, [&](const SavedFile& file) { return used.contains(file.name); });
  return files.empty() || remove(files);
}

void settle_one(const std::string& path, const SaveIntent::Remove& remove) {
  const FileDescriptor lock(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!lock || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) return;  // its program lives
  const Manifest note = parse_manifest(ReadFile(path).read_all(kMaxBytes), path);
  remove_abandoned_files(
      directory_of(path), [&](std::string_view name) { return is_named(note.files, name); },
      std::chrono::minutes(0));  // the program is gone, however young its files are
  if (clear(prefix_of(path), note.files, remove)) remove_file(path);
}

// Runs the function; an error becomes a warning.
template <typename Work>
void try_to_clear(const std::string& note, const Work& work) noexcept {
  const Status status = capture_status(work);
  if (!status.ok()) {
    log_warning("[Saver] cannot clear what '{}' lists: {}", note, status.to_string());
  }
}

}  // namespace

void save_files(const FilesToSave& save) {
  settle_abandoned_intents(directory_of(save.prefix), save.remove);
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
  // A note has the format of a manifest. Under the name of a note, the manifest tells the next save
  // of the files if this program dies before it has deleted them.
  const std::string note = fmt::format("{}.{}{}", prefix, random_id(), kIntentEnding);
  if (rename_file(manifest_path(prefix), note) && remove(files)) remove_file(note);
}

std::vector<SavedFile> remove_local_files(const std::string& directory,
                                          const std::vector<SavedFile>& files) {
  std::vector<SavedFile> elsewhere;
  for (const SavedFile& file : files) {
    if (!remove_file(in_directory(directory, file.name))) elsewhere.push_back(file);
  }
  return elsewhere;
}

void write_checkpoint(const std::string& prefix, std::optional<int64_t> step,
                      const std::vector<SaveItem>& items, const std::vector<Tensor>& values,
                      BytesWritten* progress) {
  KeyedTensors tensors;
  for (size_t i = 0; i < items.size(); ++i) tensors[items[i].key()] = values[i];
  const std::string directory = directory_of(prefix);
  const std::string id = random_id();
  const SavedFile file{.name = data_file_name(prefix, id, 0, 1)};
  remove_abandoned_files(directory, is_checkpoint_file_name);
  save_files({.prefix = prefix,
              .id = id,
              .files = {file},
              .remove = [&](const auto& files) { return remove_here(directory, files); },
              .write =
                  [&] {
                    Manifest manifest = new_manifest(step);
                    add_shard(manifest, file,
                              write_shard(in_directory(directory, file.name), tensors, progress),
                              items);
                    return manifest;
                  }});
}

SaveIntent::SaveIntent(std::string prefix, const std::string& id, std::vector<SavedFile> files)
    : prefix_(std::move(prefix)),
      files_(std::move(files)),
      path_(fmt::format("{}.{}{}", prefix_, id, kIntentEnding)),
      note_(path_) {
  note_.write(manifest_text({.step = std::nullopt, .files = files_, .tensors = {}}));
  note_.commit();
}

void SaveIntent::settle(const Remove& remove) noexcept {
  try_to_clear(path_, [&] {
    if (clear(prefix_, files_, remove)) remove_file(path_);
  });
}

void settle_abandoned_intents(const std::string& directory,
                              const SaveIntent::Remove& remove) noexcept {
  try_to_clear(directory, [&] {
    if (!std::filesystem::is_directory(directory)) return;
    std::vector<std::string> notes;
    for (const auto& entry : std::filesystem::directory_iterator(directory)) {
      if (entry.path().string().ends_with(kIntentEnding)) notes.push_back(entry.path().string());
    }
    for (const std::string& note : notes) {
      try_to_clear(note, [&] { settle_one(note, remove); });
    }
  });
}

}  // namespace internal

bool checkpoint_exists(std::string_view prefix) {
  return internal::file_exists(internal::manifest_path(prefix));
}

void remove_checkpoint(std::string_view prefix) {
  const std::string name(prefix);
  internal::remove_saved(name, [&](const std::vector<internal::SavedFile>& files) {
    return internal::remove_here(internal::directory_of(name), files);
  });
}

}  // namespace cohort
