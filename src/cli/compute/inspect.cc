#include <filesystem>

#include "base/raise.h"
#include "cli/compute/compute.h"
#include "cli/compute/inspect_kinds.h"

namespace cohort::cli {
namespace {

namespace fs = std::filesystem;

// Of checkpoints, unless it only has files of events.
std::string kind_of_folder(const std::string& path) {
  bool events = false;
  std::error_code unreadable;  // which the reader of checkpoints tells
  for (const auto& entry : fs::directory_iterator(path, unreadable)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".manifest.json")) return "checkpoint";
    events = events || is_event_file(name);
  }
  return events ? "events" : "checkpoint";
}

// What the name says, or the first bytes do.
std::string kind_of(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  if (fs::is_directory(path)) return kind_of_folder(path);
  if (!fs::exists(path)) return "checkpoint";  // the prefix of one is no file
  if (is_event_file(name)) return "events";
  if (name.ends_with(".safetensors")) return "safetensors";
  if (name.ends_with(".manifest.json")) return "checkpoint";
  if (begins_as_tfrecord(path)) return "tfrecord";
  return is_graph(path) ? "graph" : "unknown";
}

void inspect_as(const std::string& what, const std::string& path, const InspectOptions& options) {
  if (what == "checkpoint") return inspect_checkpoint(path, options);
  if (what == "events") return inspect_events(path, options);
  if (what == "tfrecord") return inspect_tfrecord(path, options);
  if (what == "safetensors") return inspect_safetensors(path, options);
  if (what == "graph") return inspect_graph(path, options);
  if (what == "unknown") {
    internal::raise(Code::DataLoss,
                    "[Inspect] '{}' has an unknown format: it is neither a checkpoint, an event "
                    "file, a TFRecord file, a safetensors file nor a graph; --kind says what a "
                    "damaged file is",
                    path);
  }
  internal::raise(Code::InvalidArgument,
                  "[Inspect] '{}' is no kind; those are checkpoint, events, tfrecord, safetensors "
                  "and graph",
                  what);
}

}  // namespace

void inspect(const std::string& kind, const std::string& path, const InspectOptions& options) {
  const std::string what = kind == "auto" ? kind_of(path) : kind;
  const Status status = capture_status([&] { inspect_as(what, path, options); });
  if (status.ok()) return;
  if (what == "unknown") throw_if_error(status);
  const bool is_guess = what == "graph" || what == "tfrecord";  // by its bytes
  internal::raise(Code::DataLoss, "[Inspect] '{}' cannot be read as {}: {}{}", path, what,
                  status.message, kind == "auto" && is_guess ? "; --kind says what it is" : "");
}

}  // namespace cohort::cli
