#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/file_descriptor.h"

namespace cohort::cli {

using Environment = std::map<std::string, std::string>;

// A program to start, as a process group of its own.
struct ChildStart {
  std::vector<std::string> command = {};  // looked for in PATH
  Environment environment = {};           // added to that of this process
  std::string directory = {};             // to run in; empty: that of this process
  std::string input = {};                 // its standard input; at most 64 KiB, which a pipe holds
  int reaper_end = -1;                    // see Reaper
  std::optional<uint64_t> memory_limit_bytes = std::nullopt;  // of its data
};

// A program that was started. The files are the reading ends of its output and its errors.
struct Child {
  pid_t id = -1;
  internal::FileDescriptor output = {};
  internal::FileDescriptor errors = {};
};

// The child is killed when this process ends, and handles signals by default. Throws
// InvalidArgument with the name of a program that cannot be started, ResourceExhausted if the
// system starts no more processes.
Child start_child(const ChildStart& start);

// Runs a program and returns its output within the limit; then the program is killed. Empty if the
// program cannot be started.
std::string captured_output(const std::vector<std::string>& command,
                            std::chrono::milliseconds limit);

// The file of that name that belongs to this command: beside it where it was built, in
// ../libexec/cohort where it is installed. Empty if the file is in neither place.
std::string helper_file(const std::string& name);

// Replaces this process by cohort-compute with these arguments. Throws NotFound if that program
// cannot be started.
[[noreturn]] void exec_helper(const std::vector<std::string>& words,
                              const Environment& environment = {});

// A process that cleans up when the launcher ends, even if the launcher is killed. The reaper then
// kills the process groups that are left and the processes that tasks have started outside them
// (see add_mark), and removes the secrets of the run.
//
// The first process of a group announces the group to the reaper before it becomes the program of
// the task, so the reaper knows every group.
class Reaper {
 public:
  static constexpr char kProcessName[] = "cohort-reaper";
  // Forks, so make it before any thread. Throws ResourceExhausted if the fork fails.
  Reaper(const std::string& run_directory, const std::string& secrets_directory);
  // Waits until the reaper has done its work.
  ~Reaper();
  Reaper(const Reaper&) = delete;
  Reaper& operator=(const Reaper&) = delete;

  // Writes the id of the calling process to the reaper. Async-signal-safe.
  static void announce(int reaper_end);
  int end() const { return end_; }
  // The group has ended, and the system may use its number again.
  void ended(pid_t group) const;

 private:
  int end_;
  pid_t process_;
};

// Adds the mark of a task of the run to its environment. Processes that the task starts inherit the
// mark, even if they leave the process group of the task or become daemons. The tasks of a launcher
// that is itself a task of a run have the marks of both runs.
void add_mark(Environment& environment, const std::string& run_directory, const std::string& label);

// Kills all processes with the mark of this task or, without a label, of any task of the run,
// except reapers.
void kill_marked(const std::string& run_directory, const std::string& label = "");

}  // namespace cohort::cli
