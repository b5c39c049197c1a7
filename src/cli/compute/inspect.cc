#include "cli/compute/inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "base/raise.h"
#include "cohort/graph.h"

namespace cohort::cli {
namespace {

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) internal::raise(Code::NotFound, "[Inspect] there is no file '{}'", path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Most frequent first.
std::vector<std::pair<std::string, int>> sorted(const std::map<std::string, int>& counts) {
  std::vector<std::pair<std::string, int>> all(counts.begin(), counts.end());
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return all;
}

bool is_graph(const std::string& path) {
  const std::string bytes = bytes_of(path);
  return !bytes.empty() && capture_status([&] { (void)Graph::deserialize(bytes); }).ok();
}

void inspect_graph(const std::string& path, const InspectOptions& options) {
  const Graph graph = Graph::deserialize(bytes_of(path));
  if (options.dot) return fmt::print("{}", graph.to_dot());
  std::map<std::string, int> ops, devices;
  for (const NodeInfo& node : graph.nodes()) {
    ++ops[node.op];
    ++devices[node.device.empty() ? "anywhere" : node.device];
  }
  fmt::print("graph {}\n{} nodes\n", path, graph.size());
  for (const auto& [device, count] : sorted(devices)) fmt::print("  {} on {}\n", count, device);
  const auto by_count = sorted(ops);
  for (size_t i = 0; i < shown(by_count.size(), options); ++i) {
    fmt::print("  {:<30} {}\n", by_count[i].first, by_count[i].second);
  }
  print_rest(by_count.size(), options);
}

namespace fs = std::filesystem;

// A directory is one of checkpoints, unless it has only event files.
std::string kind_of_directory(const std::string& path) {
  bool events = false;
  std::error_code unreadable;  // the reader of checkpoints reports it
  for (const auto& entry : fs::directory_iterator(path, unreadable)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".manifest.json")) return "checkpoint";
    events = events || is_event_file(name);
  }
  return events ? "events" : "checkpoint";
}

// Decides by the name, or else by the first bytes.
std::string kind_of(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  if (fs::is_directory(path)) return kind_of_directory(path);
  if (!fs::exists(path)) return "checkpoint";  // the prefix of a checkpoint is not a file
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
  internal::raise(
      Code::InvalidArgument,
      "[Inspect] '{}' is not a kind; the kinds are checkpoint, events, tfrecord, safetensors "
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
