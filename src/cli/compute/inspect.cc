#include "cli/compute/inspect.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "base/raise.h"
#include "base/read_file.h"
#include "cohort/checkpoint.h"
#include "cohort/error.h"
#include "cohort/event_file.h"
#include "cohort/example.pb.h"
#include "cohort/graph.h"
#include "cohort/readers.h"
#include "cohort/summary.h"

namespace cohort::cli {
namespace {

// How many of `count` entries are shown.
size_t shown(size_t count, const InspectOptions& options) {
  return options.limit <= 0 ? count : std::min(count, static_cast<size_t>(options.limit));
}

// The line that says how many are not shown.
void print_rest(size_t count, const InspectOptions& options) {
  if (const size_t rest = count - shown(count, options)) {
    fmt::print("  ... {} more (--limit 0 shows all)\n", rest);
  }
}

constexpr std::string_view kManifest = ".manifest.json";

// The path may be the prefix, the manifest or the directory of a checkpoint.
std::string prefix_of(const std::string& path) {
  if (path.ends_with(kManifest)) return path.substr(0, path.size() - kManifest.size());
  if (!std::filesystem::is_directory(path)) return path;
  const auto latest = latest_checkpoint(path, {.check = CheckpointCheck::Sizes});
  if (!latest) internal::raise(Code::NotFound, "[Inspect] there is no checkpoint in '{}'", path);
  return *latest;
}

uint64_t bytes_of(const SavedTensor& tensor) {
  return static_cast<uint64_t>(tensor.shape.num_elements() * size_of(tensor.dtype));
}

void print_tensors(const std::vector<SavedTensor>& tensors, const InspectOptions& options) {
  uint64_t bytes = 0;
  for (const SavedTensor& tensor : tensors) bytes += bytes_of(tensor);
  fmt::print("{} tensors, {:.1f} MB\n", tensors.size(), static_cast<double>(bytes) * 1e-6);
  for (size_t i = 0; i < shown(tensors.size(), options); ++i) {
    fmt::print("  {:<40} {:<8} {}\n", tensors[i].name, to_string(tensors[i].dtype),
               tensors[i].shape.to_string());
  }
  print_rest(tensors.size(), options);
}

void inspect_checkpoint(const std::string& path, const InspectOptions& options) {
  const CheckpointReader reader(prefix_of(path));
  const auto saved = std::chrono::time_point_cast<std::chrono::seconds>(reader.saved_at());
  fmt::print("checkpoint {}\n", reader.prefix());
  if (reader.step()) fmt::print("step {}, ", *reader.step());
  fmt::print("saved {:%Y-%m-%d %H:%M:%S} UTC, {} files\n", saved, reader.files().size());
  for (const std::string& file : reader.files()) {
    if (!std::filesystem::exists(file)) fmt::print("  '{}' is not on this machine\n", file);
  }
  print_tensors(reader.tensors(), options);
  if (!options.verify) return;
  reader.verify();
  fmt::print("all checksums are right\n");
}

void inspect_safetensors(const std::string& path, const InspectOptions& options) {
  std::vector<SavedTensor> tensors;
  for (const auto& [name, tensor] : load_safetensors(path)) {
    tensors.push_back({name, tensor.dtype(), tensor.shape()});
  }
  fmt::print("safetensors file {}\n", path);
  print_tensors(tensors, options);
}

// The features of a tf.Example; "" if the record is not a tf.Example.
std::string example_text(const std::string& record) {
  data::proto::Example example;
  if (!example.ParseFromString(record) || example.features().feature().empty()) return "";
  const std::map<std::string, data::proto::Feature> features(example.features().feature().begin(),
                                                             example.features().feature().end());
  std::string text;
  for (const auto& [name, feature] : features) {
    const bool floats = feature.has_float_list(), numbers = feature.has_int64_list();
    const int count = floats    ? feature.float_list().value_size()
                      : numbers ? feature.int64_list().value_size()
                                : feature.bytes_list().value_size();
    text += fmt::format("  {:<30} {} x {}\n", name, count,
                        floats ? "float32" : (numbers ? "int64" : "string"));
  }
  return text;
}

// The values of one tag.
struct Series {
  std::string kind;
  int64_t count = 0;
  int64_t first_step = 0, last_step = 0;
  std::string last_value;
};

std::string kind_of(const SummaryEvent& event) {
  constexpr const char* kKinds[] = {"scalar", "histogram", "image", "text", "graph"};
  return kKinds[event.value.index()];
}

struct ValueText {
  std::string operator()(double value) const { return fmt::format("{:g}", value); }
  std::string operator()(const SummaryHistogram& value) const {
    return fmt::format("{} values in [{:g}, {:g}]", value.count, value.min, value.max);
  }
  std::string operator()(const SummaryImage& value) const {
    return fmt::format("{} x {} pixels, {} channels", value.width, value.height, value.channels);
  }
  std::string operator()(const SummaryText& value) const { return value.text.substr(0, 60); }
  std::string operator()(const SummaryGraph& value) const {
    return fmt::format("{} nodes", value.nodes);
  }
};

void add(const SummaryEvent& event, std::map<std::string, Series>& all) {
  Series& series = all[event.tag];
  if (series.count++ == 0) series.first_step = event.step;
  series.kind = kind_of(event);
  series.last_step = event.step;
  series.last_value = std::visit(ValueText{}, event.value);
}

void inspect_file(const std::string& path, const InspectOptions& options) {
  std::map<std::string, Series> all;
  size_t values = 0;
  // The end is missing if the training was killed or goes on.
  const Status status = capture_status([&] {
    read_events(path, [&](const SummaryEvent& event) {
      ++values;
      add(event, all);
    });
  });
  if (!status.ok() && values == 0) throw_if_error(status);
  fmt::print("event file {}\n{} values of {} tags\n", path, values, all.size());
  size_t left = shown(all.size(), options);
  for (const auto& [tag, series] : all) {
    if (left-- == 0) break;
    fmt::print("  {:<30} {:<9} {} times, steps {} to {}, last {}\n", tag, series.kind, series.count,
               series.first_step, series.last_step, series.last_value);
  }
  print_rest(all.size(), options);
  throw_if_error(status);
}

bool is_named_as_tfrecord(std::string_view name) {
  if (name.ends_with(".gz")) name.remove_suffix(3);
  return name.ends_with(".tfrecord") || name.ends_with(".tfrecords");
}

// By its first bytes, after decompression if the file is compressed. A file without bytes is a
// shard without records if its name says so.
bool is_tfrecord(const std::string& path) {
  bool has_record = false;
  const Status status = capture_status(
      [&] { has_record = data::tfrecord(path).iterator().next_optional().has_value(); });
  return status.ok() && (has_record || is_named_as_tfrecord(path));
}

void inspect_tfrecord(const std::string& path, const InspectOptions&) {
  size_t count = 0, bytes = 0, shortest = SIZE_MAX, longest = 0;
  std::string first;
  const Status status = capture_status([&] {
    for (const data::Element& element : data::tfrecord(path)) {
      const auto record = element.to<std::string>();
      if (count++ == 0) first = record;
      bytes += record.size();
      shortest = std::min(shortest, record.size());
      longest = std::max(longest, record.size());
    }
  });
  if (!status.ok() && count == 0) throw_if_error(status);
  fmt::print("TFRecord file {}\n{} records, {:.1f} MB", path, count,
             static_cast<double>(bytes) * 1e-6);
  if (count > 0) fmt::print(", of {} to {} bytes", shortest, longest);
  const std::string features = example_text(first);
  if (!features.empty()) fmt::print("\nthe first is a tf.Example with\n{}", features);
  if (features.empty()) fmt::print("\n");
  throw_if_error(status);  // after the records before the damage
}

bool is_event_file(const std::string& name) { return name.find("tfevents") != std::string::npos; }

void inspect_events(const std::string& path, const InspectOptions& options) {
  if (!std::filesystem::is_directory(path)) return inspect_file(path, options);
  std::set<std::string> files;  // by time
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    if (is_event_file(entry.path().filename().string())) files.insert(entry.path().string());
  }
  for (const std::string& file : files) inspect_file(file, options);
}

std::string bytes_of(const std::string& path) {
  if (std::optional<std::string> bytes = internal::read_file(path)) return *std::move(bytes);
  internal::raise(Code::NotFound, "[Inspect] there is no file '{}'", path);
}

// Most frequent first.
std::vector<std::pair<std::string, int>> sorted(const std::map<std::string, int>& counts) {
  std::vector<std::pair<std::string, int>> all(counts.begin(), counts.end());
  std::ranges::stable_sort(all, [](const auto& a, const auto& b) { return a.second > b.second; });
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
  if (is_tfrecord(path)) return "tfrecord";
  return is_graph(path) ? "graph" : "unknown";
}

void inspect_as(const std::string& what, const std::string& path, const InspectOptions& options) {
  if (what == "checkpoint") return inspect_checkpoint(path, options);
  if (what == "events") return inspect_events(path, options);
  if (what == "tfrecord") return inspect_tfrecord(path, options);
  if (what == "safetensors") return inspect_safetensors(path, options);
  if (what == "graph") return inspect_graph(path, options);
  if (what == "unknown") {
    internal::raise(
        Code::DataLoss,
        "[Inspect] '{}' has an unknown format: it is neither a checkpoint, an event file, a "
        "TFRecord file, a safetensors file nor a graph; for a damaged file, give its --kind",
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
                  status.message,
                  kind == "auto" && is_guess ? "; if it is another kind of file, give --kind" : "");
}

}  // namespace cohort::cli
