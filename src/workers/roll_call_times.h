#pragma once

#include <chrono>

#include "cohort/error.h"

namespace cohort::internal {

inline constexpr std::chrono::milliseconds kVisitTime{500};  // for one try to reach somebody
inline constexpr std::chrono::milliseconds kBetweenVisits{300};
// So long a worker that was told that the group has begun tries again: the others may not have
// noticed yet that they have lost its predecessor.
inline constexpr std::chrono::seconds kBusyTime{5};
// After a problem the leader waits so long for those who are on their way, to tell them too.
inline constexpr std::chrono::milliseconds kLateComers{1000};

// Whether a visit that failed so may succeed later.
inline bool may_pass(Code code) {
  return code == Code::Unavailable || code == Code::DeadlineExceeded || code == Code::Cancelled;
}

}  // namespace cohort::internal
