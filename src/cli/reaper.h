#pragma once

#include <sys/types.h>

#include <string>

namespace cohort::cli {

// A process that sees to it that nothing is left behind when the launcher is killed: it then kills
// the process groups that are still there, what tasks have started outside of them (see
// leftovers.h), and removes the folder of the run's secrets.
//
// It hears of a group from the group's first process, before that becomes the task's program, so
// that there is no moment in which one is not known.
class Reaper {
 public:
  static constexpr char kProcessName[] = "cohort-reaper";
  // Forks: make it before any thread. ResourceExhausted when that is not possible.
  Reaper(const std::string& run_folder, const std::string& secrets_folder);
  // The launcher ends as it should; the reaper does its work and ends as well.
  ~Reaper();
  Reaper(const Reaper&) = delete;
  Reaper& operator=(const Reaper&) = delete;

  // For the new process: writes its id. Async-signal-safe.
  static void announce(int reaper_end);
  int end() const { return end_; }
  // The group is gone, and its number may soon be another's.
  void ended(pid_t group) const;

 private:
  int end_;
  pid_t process_;
};

}  // namespace cohort::cli
