#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "base/activity.h"

namespace cohort::cli {

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
