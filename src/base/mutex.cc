#include "base/mutex.h"

#include <cstdlib>

#include "base/log.h"

namespace cohort::internal {

void check_no_mutex_held([[maybe_unused]] std::string_view action) {
#ifdef COHORT_CHECK_LOCKS
  if (num_mutexes_held == 0) return;
  log_error(
      "[Connection] it {} while its thread holds a mutex of the library; collect under the "
      "lock and act after it, see base/mutex.h",
      action);
  std::abort();
#endif
}

}  // namespace cohort::internal
