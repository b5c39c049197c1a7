// Event files.

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <set>

#include "cli/compute/inspect_kinds.h"
#include "cohort/summary.h"

namespace cohort::cli {
namespace {

// What happened to one tag.
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
  // Of a training that was killed, or goes on, the end is missing.
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
