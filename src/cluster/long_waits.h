#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/activity.h"

namespace cohort::internal {

// What a server, or a run of it, has waited for.
struct LongWait {
  WaitKind kind = WaitKind::Tensor;
  std::string what = {};
  std::vector<std::string> whom = {};
  std::chrono::steady_clock::time_point since = {};
};

// Whether a run with that limit waits on purpose, so that its waiting is not reported.
inline bool waits_on_purpose(std::chrono::milliseconds limit) {
  return limit > std::chrono::hours(24);
}

}  // namespace cohort::internal
