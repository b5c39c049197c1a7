#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace cohort::cli {

// The timelines of all tasks of a run in one file for Perfetto and chrome://tracing: a process for
// each task, with a row for each of its threads and devices. Times count from the construction of
// this object, on the clock of this machine. One thread.
class TraceFile {
 public:
  // Throws PermissionDenied if the file cannot be written.
  TraceFile(std::string path, std::vector<std::string> labels);

  // Adds lines that a task wrote (src/base/timeline.h). The clock of its machine is `clock_ahead`
  // of this one. Lines that are not events are left out: a task may have died while it wrote.
  void add(size_t task, std::string_view lines, std::chrono::nanoseconds clock_ahead);
  // Writes all events so far.
  void write() const;
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
  const std::vector<std::string> labels_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::string events_;  // with commas between them
};

}  // namespace cohort::cli
