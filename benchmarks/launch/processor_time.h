#pragma once

#include <sys/types.h>
#include <time.h>

#include "cohort/error.h"

namespace cohort::bench {

// Seconds that a process has computed so far, what the system did for it included.
inline double processor_seconds(pid_t process) {
  clockid_t clock = 0;
  timespec time{};
  if (clock_getcpuclockid(process, &clock) != 0 || clock_gettime(clock, &time) != 0) {
    throw Error(Code::NotFound, "there is no process " + std::to_string(process));
  }
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace cohort::bench
