#include "cli/deadlock.h"

#include <linux/futex.h>
#include <sys/syscall.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace cohort::cli {
namespace {

// The file has the call's number and its arguments, or a word.
bool waits_for_a_lock(const std::filesystem::path& thread) {
  std::ifstream file(thread / "syscall");
  long call = -1;
  unsigned long address = 0, operation = 0, value = 0, limit = 0;
  file >> call >> std::hex >> address >> operation >> value >> limit;
  if (!file || call != SYS_futex) return false;
  const unsigned long what = operation & static_cast<unsigned long>(FUTEX_CMD_MASK);
  const bool waits = what == FUTEX_WAIT || what == FUTEX_WAIT_BITSET || what == FUTEX_LOCK_PI;
  // One that other processes see may be given by them.
  return waits && (operation & FUTEX_PRIVATE_FLAG) != 0 && limit == 0;
}

}  // namespace

bool all_threads_wait_for_locks(pid_t process) {
  std::error_code problem;
  bool any = false;
  for (std::filesystem::directory_iterator thread("/proc/" + std::to_string(process) + "/task",
                                                  problem);
       !problem && thread != std::filesystem::directory_iterator(); thread.increment(problem)) {
    if (!waits_for_a_lock(thread->path())) return false;
    any = true;
  }
  return any && !problem;
}

}  // namespace cohort::cli
