#pragma once

#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace cohort::cli {

enum class Stream { Output, Errors };

// Bytes as they come, given on as lines. One without an end is given on when it is long, or by
// finish().
class LineCutter {
 public:
  using Take = std::function<void(std::string_view line)>;
  explicit LineCutter(Take take) : take_(std::move(take)) {}
  void add(std::string_view bytes);
  void finish();

 private:
  Take take_;
  std::string begun_;
};

// The file in which what a task wrote is kept.
class TaskLog {
 public:
  // PermissionDenied when it cannot be written.
  explicit TaskLog(std::string path);
  void add(std::string_view line);
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
  std::ofstream file_;
};

// Writes the lines of all tasks to this process's own streams, each behind its task's name; in
// colours on a terminal, unless NO_COLOR is set.
class Printer {
 public:
  explicit Printer(std::vector<std::string> labels);
  void line(size_t task, Stream stream, std::string_view text);

 private:
  std::vector<std::string> prefixes_[2];  // of each stream
};

// Whether colours make sense there.
bool is_colourful(int fd);

}  // namespace cohort::cli
