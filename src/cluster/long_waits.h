#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/activity.h"

namespace cohort::internal {

// Something that a server, or a run of it, has waited for another task for.
struct LongWait {
  WaitKind kind = WaitKind::Tensor;
  std::string what = {};
  std::vector<std::string> whom = {};
  std::chrono::steady_clock::time_point since = {};
};

// Whether a run with that limit is there to wait, so that nobody need hear that it does.
inline bool waits_on_purpose(std::chrono::milliseconds limit) {
  return limit > std::chrono::hours(24);
}

// The longest of them, as an Activity tells.
std::vector<WaitNote> notes_of(std::vector<LongWait> waits);

}  // namespace cohort::internal
