#include "checkpoint/checkpoint_list.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/raise.h"
#include "checkpoint/checkpoint_contents.h"
#include "checkpoint/durable_file.h"
#include "checkpoint/json_fields.h"
#include "checkpoint/manifest.h"

namespace cohort {
namespace internal {
namespace {

// The options with an empty max_to_keep where it was 0, as TensorFlow's users write it.
RetentionOptions checked(std::string_view operation, RetentionOptions options) {
  if (options.max_to_keep == 0) options.max_to_keep = std::nullopt;
  if (options.max_to_keep && *options.max_to_keep < 0) {
    raise(Code::InvalidArgument, "[{}] max_to_keep must be 0 (all) or more, got {}", operation,
          *options.max_to_keep);
  }
  if (options.keep_checkpoint_every && options.keep_checkpoint_every->count() <= 0) {
    raise(Code::InvalidArgument,
          "[{}] keep_checkpoint_every must be positive, got {} ms; leave it empty to keep none for "
          "good",
          operation, options.keep_checkpoint_every->count());
  }
  return options;
}

using Time = std::chrono::system_clock::time_point;

constexpr uint64_t kMaxStateBytes = 16 << 20;
constexpr std::string_view kLatest = "model_checkpoint_path";
constexpr std::string_view kAllPaths = "all_model_checkpoint_paths";
constexpr std::string_view kTimes = "all_model_checkpoint_timestamps_ms";

// The path from the directory where it is inside it, however the two are written; else from the
// root.
std::string stored_path(const std::string& directory, const std::string& path) {
  const std::filesystem::path resolved = resolved_path(path);
  const std::filesystem::path inside =
      resolved.lexically_relative(directory_of(resolved_path(in_directory(directory, "file"))));
  const bool is_inside = !inside.empty() && *inside.begin() != "..";
  return is_inside ? inside.string() : resolved.string();
}

std::string text_or_empty(const FileJson& object, std::string_view name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::vector<std::string> paths_of(const FileJson& object, const JsonPlace& place) {
  std::vector<std::string> paths;
  const auto found = object.find(kAllPaths);
  if (found == object.end()) return paths;
  for (const FileJson& path : *found) {
    if (!path.is_string()) {
      raise(Code::DataLoss, "[Checkpoint] {}: \"{}\" must be a list of texts", place.to_string(),
            kAllPaths);
    }
    paths.push_back(path.get<std::string>());
  }
  return paths;
}

// The time of each path's checkpoint; the beginning of 1970 if the file does not contain the time.
std::vector<Time> times_of(const FileJson& object, size_t count) {
  std::vector<Time> times(count);
  const auto found = object.find(kTimes);
  if (found == object.end() || !found->is_array()) return times;
  for (size_t i = 0; i < count && i < found->size(); ++i) {
    const FileJson& ms = (*found)[i];
    if (ms.is_number_integer()) times[i] = from_ms(ms.get<int64_t>());
  }
  return times;
}

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
    log_warning("[Checkpoint] '{}' is skipped: {}", prefix, status.to_string());
  }
  return status.ok();
}

// All that the directory has, newest first.
std::vector<std::string> found_in(const std::string& directory) {
  std::vector<std::pair<int64_t, std::string>> found;
  std::error_code error;
  for (const std::string& name : checkpoints_in(directory, error)) {
    const std::string prefix = in_directory(directory, name);
    throw_unless_it_is_bad(capture_status(
        [&] { found.emplace_back(CheckpointFiles(prefix).manifest().saved_at_ms, prefix); }));
  }
  throw_unless_it_is_bad(
      {.code = error ? code_of_errno(error.value()) : Code::Ok,
       .message = fmt::format("[Checkpoint] cannot list '{}': {}", directory, error.message())});
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

CheckpointList::CheckpointList(std::string_view operation, const RetentionOptions& options)
    : operation_(operation),
      options_(checked(operation, options)),
      next_kept_(after_period(options_.now())) {}

CheckpointList::Time CheckpointList::after_period(Time start) const {
  using std::chrono::milliseconds;
  if (!options_.keep_checkpoint_every) return Time::max();
  // A sum that the clock does not count would overflow.
  const auto longest = std::chrono::duration_cast<milliseconds>(Time::max() - start);
  const milliseconds period = *options_.keep_checkpoint_every;
  return period < longest ? start + period : Time::max();
}

CheckpointList::Change CheckpointList::add(const std::string& prefix) {
  const std::lock_guard lock(mutex_);
  const std::string path = resolved_path(prefix);
  std::erase_if(entries_, [&](const Entry& entry) { return resolved_path(entry.prefix) == path; });
  entries_.push_back({prefix, options_.now()});
  Change change{.state = {.latest = prefix, .all = {}, .saved_at = {}}, .dropped = drop_oldest()};
  for (const Entry& entry : entries_) {
    change.state.all.push_back(entry.prefix);
    change.state.saved_at.push_back(entry.saved_at);
  }
  return change;
}

void CheckpointList::keep(const std::string& prefix, const std::string& state_file,
                          const std::function<void(const std::string& dropped)>& remove) {
  const Change change = add(prefix);
  if (!state_file.empty()) write_state_file(directory_of(prefix), state_file, change.state);
  for (const std::string& dropped : change.dropped) {
    const Status status = capture_status([&] { remove(dropped); });
    if (!status.ok()) {
      log_warning("[{}] cannot remove '{}': {}", operation_, dropped, status.to_string());
    }
  }
}

std::vector<std::string> CheckpointList::drop_oldest() {
  std::vector<std::string> dropped;
  if (!options_.max_to_keep) {
    entries_.erase(entries_.begin(), entries_.end() - 1);
    return dropped;
  }
  while (entries_.size() > static_cast<size_t>(*options_.max_to_keep)) {
    const Entry oldest = entries_.front();
    entries_.erase(entries_.begin());
    if (oldest.saved_at > next_kept_) {
      next_kept_ = after_period(next_kept_);
    } else {
      dropped.push_back(oldest.prefix);
    }
  }
  return dropped;
}

std::vector<std::string> CheckpointList::prefixes() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> prefixes;
  for (const Entry& entry : entries_) prefixes.push_back(entry.prefix);
  return prefixes;
}

void CheckpointList::recover(const CheckpointState& state) {
  std::vector<Entry> found;
  for (size_t i = 0; i < state.all.size(); ++i) {
    Time saved_at = i < state.saved_at.size() ? state.saved_at[i] : Time();
    const Status status = capture_status([&] {
      const CheckpointFiles files(state.all[i]);
      if (saved_at == Time()) saved_at = from_ms(files.manifest().saved_at_ms);
    });
    if (status.ok()) found.push_back({state.all[i], saved_at});
  }
  const std::lock_guard lock(mutex_);
  entries_ = std::move(found);
}

void write_state_file(const std::string& directory, const std::string& name,
                      const CheckpointState& state) {
  FileJson text = {{kLatest, stored_path(directory, state.latest)},
                   {kAllPaths, FileJson::array()},
                   {kTimes, FileJson::array()}};
  for (const std::string& path : state.all) text[kAllPaths].push_back(stored_path(directory, path));
  for (const Time time : state.saved_at) text[kTimes].push_back(to_ms(time));
  remove_abandoned_files(directory, [&](std::string_view left) { return left == name; });
  NewFile file(in_directory(directory, name));
  file.write(text.dump(1) + "\n");
  file.commit();
}

CheckpointState parse_state(std::string_view text, const std::string& directory,
                            const std::string& path) {
  const FileJson value = parse_file_json(text, path);
  const JsonPlace place{path, {}};
  check_object(value, place);
  const std::string latest = text_or_empty(value, kLatest);
  if (latest.empty()) {
    raise(Code::InvalidArgument,
          "[Checkpoint] '{}' does not name the latest checkpoint: \"{}\" is missing or empty", path,
          kLatest);
  }
  CheckpointState state{.latest = in_directory(directory, latest), .all = {}, .saved_at = {}};
  std::vector<std::string> all = paths_of(value, place);
  state.saved_at = times_of(value, all.size());
  for (const std::string& each : all) state.all.push_back(in_directory(directory, each));
  if (std::find(state.all.begin(), state.all.end(), state.latest) == state.all.end()) {
    state.all.push_back(state.latest);
    state.saved_at.emplace_back();
  }
  return state;
}

}  // namespace internal

std::optional<CheckpointState> get_checkpoint_state(const std::string& directory,
                                                    const std::string& state_file) {
  const std::string path = internal::in_directory(directory, state_file);
  if (!internal::file_exists(path)) return std::nullopt;
  CheckpointState state;
  const Status status = capture_status([&] {
    state = internal::parse_state(internal::ReadFile(path).read_all(internal::kMaxStateBytes),
                                  directory, path);
  });
  if (status.ok()) return state;
  // With a file that cannot be read now, training would begin anew.
  const bool is_damaged = status.code == Code::DataLoss || status.code == Code::NotFound;
  if (!is_damaged) throw Error(status);
  internal::log_warning("[Checkpoint] '{}' is treated as missing: {}", path, status.message);
  return std::nullopt;
}

std::optional<std::string> latest_checkpoint(const std::string& directory,
                                             const LatestCheckpointOptions& options) {
  const auto state = get_checkpoint_state(directory, options.state_file);
  if (state) {
    const auto good = internal::first_good(internal::listed(*state), options.check);
    if (good) return good;
  }
  return internal::first_good(internal::found_in(directory), options.check);
}

}  // namespace cohort
