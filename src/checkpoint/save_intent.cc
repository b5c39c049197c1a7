#include "checkpoint/save_intent.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/log.h"
#include "checkpoint/contents.h"
#include "checkpoint/file_names.h"

namespace cohort::internal {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{64} << 20;

// "folder/model-7" of "folder/model-7.0123456789abcdef.saving".
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

// Whether nothing is left of what no checkpoint needs.
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
      folder_of(path), [&](std::string_view name) { return is_named(note.files, name); },
      std::chrono::minutes(0));  // the program is gone, however young its files are
  if (clear(prefix_of(path), note.files, remove)) remove_file(path);
}

// Runs it; what prevents it is a warning.
template <typename Work>
void try_to_clear(const std::string& note, const Work& work) noexcept {
  const Status status = capture_status(work);
  if (!status.ok()) log_warning("[Saver] '{}' stays: {}", note, status.to_string());
}

}  // namespace

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

void settle_abandoned_intents(const std::string& folder,
                              const SaveIntent::Remove& remove) noexcept {
  try_to_clear(folder, [&] {
    if (!std::filesystem::is_directory(folder)) return;
    std::vector<std::string> notes;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().string().ends_with(kIntentEnding)) notes.push_back(entry.path().string());
    }
    for (const std::string& note : notes) {
      try_to_clear(note, [&] { settle_one(note, remove); });
    }
  });
}

}  // namespace cohort::internal
