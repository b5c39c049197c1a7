#pragma once

#include <algorithm>
#include <chrono>

#include "cohort/error.h"

namespace cohort::internal {

// Ever longer waits, from `first` to `longest`, each twice the one before.
class Backoff {
 public:
  Backoff(std::chrono::milliseconds first, std::chrono::milliseconds longest)
      : next_(std::min(first, longest)), longest_(longest) {}

  std::chrono::milliseconds next() const { return next_; }
  void grow() { next_ = std::min(2 * next_, longest_); }

 private:
  std::chrono::milliseconds next_;
  std::chrono::milliseconds longest_;
};

// Whether doing it again, with a new session, may help: another task is gone or was restarted.
inline bool is_preemption(Code code) { return code == Code::Aborted || code == Code::Unavailable; }

}  // namespace cohort::internal
