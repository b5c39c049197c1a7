#pragma once

#include <chrono>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/activity.h"

namespace cohort::cli {

enum class Stream { Output, Errors };

// Writes all of the text to the stream of this process. Waits for a slow reader. A reader that is
// gone is not an error, because the log files have everything.
void write_out(Stream stream, std::string_view text);
// Called when this process is asked to end. From then on write_out() waits for readers for two
// seconds in total, and then drops what they do not take at once. One thread writes.
void hurry_readers();

// Cuts bytes into lines. A line without an end is passed on when it is long, or by finish().
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

// The file that keeps the output of a task.
class TaskLog {
 public:
  // Throws PermissionDenied if the file cannot be written.
  explicit TaskLog(std::string path);
  // Returns why the line could not be written, or "".
  std::string add(std::string_view line);
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
  std::ofstream file_;
};

// Writes the lines of all tasks to the streams of this process, each after the name of its task. A
// terminal gets colours, unless NO_COLOR is set, and only the last state of a line that a program
// wrote over and over ("\r"); colours end with their line.
class Printer {
 public:
  explicit Printer(std::vector<std::string> labels);
  void line(size_t task, Stream stream, std::string_view text);

 private:
  struct Look {
    bool terminal = false, colourful = false;
    std::vector<std::string> prefixes = {};
  };
  Look looks_[2];  // by stream
};

// The text of a program, safe to print in a report: the last state of a line that was written over,
// without the bytes that move the cursor or change colours.
std::string printable(std::string_view text);
// At most `width` bytes of the text, cut between letters (UTF-8).
std::string shortened(const std::string& text, size_t width);
inline constexpr size_t kReportWidth = 160;
// A frame of a stack, "function at file.cc:12", cut to kReportWidth in the name of the function.
std::string shortened_frame(const std::string& frame);
// At most `count` frames, each in a line with its number.
std::string frame_lines(const std::vector<std::string>& frames, size_t count);

// Shows the progress of a training: on a terminal in a row below the lines of the tasks, elsewhere
// as a line every few seconds. If several tasks report progress, that of the first task is shown.
// The progress of all is written to the directory of the run for `cohort status`.
class ProgressView {
 public:
  using PrintLine = std::function<void(size_t task, const std::string& text)>;
  // Prints at most one line in each `interval`.
  ProgressView(std::string run_directory, std::vector<std::string> labels, PrintLine print,
               std::chrono::milliseconds interval = std::chrono::seconds(3));

  // Whether a row on a terminal shows each change.
  bool is_live() const;
  // An empty note: the task has stopped training.
  void set(size_t task, const internal::ProgressNote& note);

 private:
  using Clock = std::chrono::steady_clock;
  void write_down() const;
  void show();

  const std::string run_directory_;
  const std::vector<std::string> labels_;
  const PrintLine print_;
  const std::chrono::milliseconds interval_;
  std::map<size_t, internal::ProgressNote> notes_;
  Clock::time_point printed_;  // when the last line was printed
};

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
