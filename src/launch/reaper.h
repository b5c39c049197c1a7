#pragma once

#include <sys/types.h>

#include <string>

#include "launch/child_process.h"

namespace cohort::cli {

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
