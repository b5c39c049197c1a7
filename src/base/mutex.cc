#include "base/mutex.h"

#include <cstdlib>

#include "base/log.h"

namespace cohort::internal {

void check_no_mutex_held(std::string_view action) {
  if (!kChecksLocks || num_mutexes_held == 0) return;
  log_error(
      "[Connection] this thread {} while it holds a mutex of the library; collect under the lock "
      "and act after it, see base/mutex.h",
      action);
  std::abort();
}

}  // namespace cohort::internal
