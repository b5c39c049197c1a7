// TFRecord files and event files, which are TFRecord files as well.

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "cli/compute/inspect.h"
#include "cohort/data.h"
#include "cohort/example.pb.h"
#include "cohort/summary.h"

namespace cohort::cli {
namespace {

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

}  // namespace

bool begins_as_tfrecord(const std::string& path) {
  bool has_record = false;
  const Status status = capture_status(
      [&] { has_record = data::tfrecord(path).iterate().next_optional().has_value(); });
  return status.ok() && has_record;
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

void inspect_events(const std::string& path, const InspectOptions& options) {
  if (!std::filesystem::is_directory(path)) return inspect_file(path, options);
  std::set<std::string> files;  // by time
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    if (is_event_file(entry.path().filename().string())) files.insert(entry.path().string());
  }
  for (const std::string& file : files) inspect_file(file, options);
}

bool is_event_file(const std::string& name) { return name.find("tfevents") != std::string::npos; }

}  // namespace cohort::cli
