#pragma once

#include "cohort/error.h"

namespace cohort::internal {

// Whether trying again with a new session may help: another task is gone or was restarted.
inline bool is_preemption(Code code) { return code == Code::Aborted || code == Code::Unavailable; }

}  // namespace cohort::internal
