#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace cohort::cli {

// The timelines of all tasks of a run in one file, which Perfetto and chrome://tracing open: a
// process for each task, with a row for each of its threads and devices. Times count from when this
// was made, on this machine's clock. One thread.
class TraceFile {
 public:
  // PermissionDenied when the file cannot be written.
  TraceFile(std::string path, std::vector<std::string> labels);

  // What a task wrote (src/base/timeline.h), whose machine's steady clock is that much ahead of
  // this one's. What is no event is left out: a task may have died while it wrote.
  void add(size_t task, std::string_view lines, std::chrono::nanoseconds clock_ahead);
  // All there is so far.
  void write() const;
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
  const std::vector<std::string> labels_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::string events_;  // with commas between them
};

}  // namespace cohort::cli
