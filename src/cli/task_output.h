#pragma once

#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace cohort::cli {

enum class Stream { Output, Errors };

// Writes all of it to this process's own stream. Waits for a reader that is slow; one that is gone
// is no error: the files have everything.
void write_out(Stream stream, std::string_view text);
// Whether this process has a terminal on which a row can stay in place.
bool can_show_row();
// Keeps a row below all that write_out() writes, cut to the width of the terminal; an empty text
// removes the row.
void show_row(const std::string& text);
// Somebody wants this process to end: from now on readers are waited for two seconds, all in all,
// and then what they do not take at once is left out. One thread writes.
void hurry_readers();

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
  // Why the line could not be kept; empty when it was.
  std::string add(std::string_view line);
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
  std::ofstream file_;
};

// Writes the lines of all tasks to this process's own streams, each behind its task's name; in
// colours on a terminal, unless NO_COLOR is set. On a terminal, of a line that a program wrote over
// again and again ("\r") the last state is shown, and colours end with their line.
class Printer {
 public:
  explicit Printer(std::vector<std::string> labels);
  void line(size_t task, Stream stream, std::string_view text);

 private:
  struct Look {
    bool terminal = false, colourful = false;
    std::vector<std::string> prefixes = {};
  };
  Look looks_[2];  // of each stream
};

// Text as it may stand in a report, whatever a program wrote: the last state of a line that was
// written over, without what would move the cursor or change colours.
std::string printable(std::string_view text);
// At most so many bytes of it, and no half letter (UTF-8).
std::string shortened(const std::string& text, size_t width);

}  // namespace cohort::cli
