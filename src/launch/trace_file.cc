#include "launch/trace_file.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/raise.h"

namespace cohort::cli {
namespace {

using Json = nlohmann::json;

bool is_number(const Json& event, const char* key) {
  return event.contains(key) && event[key].is_number();
}
bool is_text(const Json& event, const char* key) {
  return event.contains(key) && event[key].is_string();
}

// Whether it is an event of a timeline: one with a duration, or the name of a row.
bool is_event(const Json& event) {
  if (!event.is_object() || !is_text(event, "name") || !is_text(event, "ph")) return false;
  if (!is_number(event, "tid")) return false;
  if (event["ph"] == "M") return event.contains("args") && is_text(event["args"], "name");
  return event["ph"] == "X" && is_number(event, "ts") && is_number(event, "dur");
}

Json about_process(size_t task, const char* what, const Json& args) {
  return {{"name", what}, {"ph", "M"}, {"pid", task}, {"tid", 0}, {"args", args}};
}

}  // namespace

TraceFile::TraceFile(std::string path, std::vector<std::string> labels)
    : path_(std::move(path)), labels_(std::move(labels)) {
  if (std::ofstream(path_)) return;
  internal::raise(Code::PermissionDenied, "[Run] --trace: '{}' cannot be written", path_);
}

void TraceFile::add(size_t task, std::string_view lines, std::chrono::nanoseconds clock_ahead) {
  const std::chrono::nanoseconds zero = began_.time_since_epoch() + clock_ahead;
  while (!lines.empty()) {
    const size_t end = std::min(lines.find('\n'), lines.size());
    Json event = Json::parse(lines.substr(0, end), nullptr, false);
    lines.remove_prefix(std::min(end + 1, lines.size()));
    if (!is_event(event)) continue;
    event["pid"] = task;
    if (event["ph"] == "X") {
      event["ts"] = event["ts"].get<double>() - static_cast<double>(zero.count()) / 1e3;
    }
    events_ += ",\n" + event.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
}

void TraceFile::write() const {
  std::ofstream file(path_);
  file << R"({"displayTimeUnit":"ms","traceEvents":[)";
  for (size_t task = 0; task < labels_.size(); ++task) {
    file << (task == 0 ? "\n" : ",\n")
         << about_process(task, "process_name", {{"name", labels_[task]}}).dump() << ",\n"
         << about_process(task, "process_sort_index", {{"sort_index", task}}).dump();
  }
  file << events_ << "\n]}\n";
  if (!file.flush()) internal::raise(Code::DataLoss, "[Run] --trace: '{}' is not whole", path_);
}

}  // namespace cohort::cli
