#pragma once

#include <sys/types.h>

namespace cohort::cli {

// Whether every thread of the process waits, without a time limit, for a lock that only another of
// these threads could give it: then it waits for ever. False where /proc does not tell.
bool all_threads_wait_for_locks(pid_t process);

}  // namespace cohort::cli
