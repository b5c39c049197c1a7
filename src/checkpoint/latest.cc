// Which checkpoint of a folder is the last good one.

#include <algorithm>
#include <filesystem>

#include "base/log.h"
#include "base/raise.h"
#include "base/system_error.h"
#include "checkpoint/contents.h"
#include "checkpoint/file_names.h"
#include "cohort/checkpoint.h"

namespace cohort {
namespace internal {
namespace {

// A shortage or a lack of rights says nothing about the checkpoint: passing it over would lose it.
void throw_unless_it_is_bad(const Status& status) {
  if (status.code == Code::ResourceExhausted || status.code == Code::PermissionDenied) {
    throw Error(status);
  }
}

bool is_good(const std::string& prefix, CheckpointCheck check) {
  const Status status = capture_status([&] {
    const CheckpointFiles files(prefix);
    if (check == CheckpointCheck::Contents) {
      files.verify();
    } else {
      files.verify_sizes();
    }
  });
  throw_unless_it_is_bad(status);
  if (!status.ok()) {
    log_warning("[Checkpoint] '{}' is passed over: {}", prefix, status.to_string());
  }
  return status.ok();
}

// All that the folder has, newest first.
std::vector<std::string> found_in(const std::string& folder) {
  const std::string ending = manifest_path("");
  std::vector<std::pair<int64_t, std::string>> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(ending)) continue;
    const std::string prefix = in_folder(folder, name.substr(0, name.size() - ending.size()));
    throw_unless_it_is_bad(capture_status(
        [&] { found.emplace_back(CheckpointFiles(prefix).manifest().saved_at_ms, prefix); }));
  }
  throw_unless_it_is_bad(
      {.code = error ? code_of_errno(error.value()) : Code::Ok,
       .message = fmt::format("[Checkpoint] cannot list '{}': {}", folder, error.message())});
  std::sort(found.rbegin(), found.rend());
  std::vector<std::string> prefixes;
  for (auto& [time, prefix] : found) prefixes.push_back(std::move(prefix));
  return prefixes;
}

std::optional<std::string> first_good(const std::vector<std::string>& prefixes,
                                      CheckpointCheck check) {
  for (const std::string& prefix : prefixes) {
    if (is_good(prefix, check)) return prefix;
  }
  return std::nullopt;
}

// The latest one, then those listed, newest first.
std::vector<std::string> listed(const CheckpointState& state) {
  std::vector<std::string> prefixes{state.latest};
  for (auto entry = state.all.rbegin(); entry != state.all.rend(); ++entry) {
    if (*entry != state.latest) prefixes.push_back(*entry);
  }
  return prefixes;
}

}  // namespace
}  // namespace internal

std::optional<std::string> latest_checkpoint(const std::string& folder,
                                             const LatestCheckpointOptions& options) {
  const auto state = get_checkpoint_state(folder, options.state_file);
  if (state) {
    const auto good = internal::first_good(internal::listed(*state), options.check);
    if (good) return good;
  }
  return internal::first_good(internal::found_in(folder), options.check);
}

}  // namespace cohort
