#pragma once

#include <sched.h>

#include <chrono>

namespace cohort::internal {

// Waking a sleeping thread takes some 30 to 50 microseconds, so who expects something soon looks
// for it that long before going to sleep. Between looks the core is offered to others: where none
// is spare, this is hardly more than going to sleep at once.
inline constexpr std::chrono::microseconds kSpinTime{40};

inline void relax_core() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

// Returns whether condition() came true within the time.
template <typename Condition>
bool spin_until(const Condition& condition) {
  constexpr int kLooksBetweenYields = 32;
  const auto deadline = std::chrono::steady_clock::now() + kSpinTime;
  do {
    for (int look = 0; look < kLooksBetweenYields; ++look) {
      if (condition()) return true;
      relax_core();
    }
    sched_yield();
  } while (std::chrono::steady_clock::now() < deadline);
  return condition();
}

}  // namespace cohort::internal
