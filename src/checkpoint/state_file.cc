#include "checkpoint/state_file.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/raise.h"
#include "checkpoint/durable_file.h"
#include "checkpoint/json_fields.h"
#include "checkpoint/manifest.h"

namespace cohort {
namespace internal {
namespace {

using Time = std::chrono::system_clock::time_point;

constexpr uint64_t kMaxStateBytes = 16 << 20;
constexpr std::string_view kLatest = "model_checkpoint_path";
constexpr std::string_view kAll = "all_model_checkpoint_paths";
constexpr std::string_view kTimes = "all_model_checkpoint_timestamps_ms";

// The path from the folder where it is inside of it, however the two are written; else from the
// root.
std::string stored_path(const std::string& folder, const std::string& path) {
  const std::filesystem::path resolved = resolved_path(path);
  const std::filesystem::path inside =
      resolved.lexically_relative(folder_of(resolved_path(in_folder(folder, "file"))));
  const bool is_inside = !inside.empty() && *inside.begin() != "..";
  return is_inside ? inside.string() : resolved.string();
}

std::string text_or_empty(const FileJson& object, std::string_view name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::vector<std::string> paths_of(const FileJson& object, const JsonPlace& place) {
  std::vector<std::string> paths;
  const auto found = object.find(kAll);
  if (found == object.end()) return paths;
  for (const FileJson& path : *found) {
    if (!path.is_string()) {
      raise(Code::DataLoss, "[Checkpoint] {}: \"{}\" must be a list of texts", place.to_string(),
            kAll);
    }
    paths.push_back(path.get<std::string>());
  }
  return paths;
}

// One for each path; 1970 where the file says nothing.
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

}  // namespace

void write_state_file(const std::string& folder, const std::string& name,
                      const CheckpointState& state) {
  FileJson text = {{kLatest, stored_path(folder, state.latest)},
                   {kAll, FileJson::array()},
                   {kTimes, FileJson::array()}};
  for (const std::string& path : state.all) text[kAll].push_back(stored_path(folder, path));
  for (const Time time : state.saved_at) text[kTimes].push_back(to_ms(time));
  remove_abandoned_files(folder, [&](std::string_view left) { return left == name; });
  NewFile file(in_folder(folder, name));
  file.write(text.dump(1) + "\n");
  file.commit();
}

CheckpointState parse_state(std::string_view text, const std::string& folder,
                            const std::string& path) {
  const FileJson value = parse_file_json(text, path);
  const JsonPlace place{path, {}};
  check_object(value, place);
  const std::string latest = text_or_empty(value, kLatest);
  if (latest.empty()) {
    raise(Code::InvalidArgument, "[Checkpoint] '{}' names no latest checkpoint (\"{}\")", path,
          kLatest);
  }
  CheckpointState state{.latest = in_folder(folder, latest), .all = {}, .saved_at = {}};
  std::vector<std::string> all = paths_of(value, place);
  state.saved_at = times_of(value, all.size());
  for (const std::string& each : all) state.all.push_back(in_folder(folder, each));
  if (std::find(state.all.begin(), state.all.end(), state.latest) == state.all.end()) {
    state.all.push_back(state.latest);
    state.saved_at.emplace_back();
  }
  return state;
}

}  // namespace internal

std::optional<CheckpointState> get_checkpoint_state(const std::string& folder,
                                                    const std::string& state_file) {
  const std::string path = internal::in_folder(folder, state_file);
  if (!internal::file_exists(path)) return std::nullopt;
  CheckpointState state;
  const Status status = capture_status([&] {
    state = internal::parse_state(internal::ReadFile(path).read_all(internal::kMaxStateBytes),
                                  folder, path);
  });
  if (status.ok()) return state;
  // With a file that cannot be read now, training would begin anew.
  const bool is_damaged = status.code == Code::DataLoss || status.code == Code::NotFound;
  if (!is_damaged) throw Error(status);
  internal::log_warning("[Checkpoint] '{}' counts as missing: {}", path, status.message);
  return std::nullopt;
}

}  // namespace cohort
