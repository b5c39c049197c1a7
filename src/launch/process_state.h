#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "base/activity.h"

namespace cohort::cli {

// The cgroup (of either version) with which this process shares a memory limit. It tells a kill for
// lack of memory from any other kill.
class MemoryCgroup {
 public:
  // The cgroup of the process with that id, or of this one.
  explicit MemoryCgroup(const std::string& process = "self");

  // How many of its processes the kernel has killed for lack of memory; 0 if that is unknown.
  uint64_t kills() const;
  std::optional<uint64_t> limit_bytes() const;  // empty: no limit

 private:
  std::optional<uint64_t> number_in(const std::string& file, const std::string& key = "") const;

  std::string directory_;  // empty: no such cgroup
  bool first_version_ = false;
};

// The processes or threads in a directory of /proc.
std::vector<pid_t> numbers_in(const std::string& directory, std::error_code& problem);

// Whether every thread of the process waits, without a time limit, for a lock of this process. Such
// a process waits forever. False if /proc does not say.
bool all_threads_wait_for_locks(pid_t process);

// What a running task does, and where in its program.
struct TaskPlace {
  std::string doing = {};    // "computes", "is stopped (SIGSTOP); kill -CONT 17 lets it go on"
  double input_seconds = 0;  // how long it has been getting an element of a dataset
  // The stack of its main thread, innermost frame first. If the main thread is idle, the stack of a
  // thread that computes or makes input comes before it.
  std::vector<std::string> frames = {};
};

// Asks the process of that activity, whose crash report would be in that file. Takes up to some
// seconds, most of them for the names of functions. The frames are empty if the process does not
// answer.
TaskPlace find_place(const internal::Activity& activity, const std::string& crash_file);

}  // namespace cohort::cli
