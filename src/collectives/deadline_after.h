#pragma once

#include <chrono>

#include "transport/connection.h"

namespace cohort::internal {

// The end of a wait of that length that begins now; never, when it is longer than clocks count.
inline Deadline deadline_after(std::chrono::nanoseconds time) {
  const auto now = std::chrono::steady_clock::now();
  return time < Deadline::max() - now ? now + time : Deadline::max();
}

}  // namespace cohort::internal
