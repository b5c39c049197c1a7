#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/waiting.h"

namespace cohort::internal {

// Numbers calls, and lets them happen one after the other in that order, whichever threads make
// them. Thread-safe.
class CallOrder {
 public:
  // The numbers begin with 0.
  uint64_t next_number() { return next_.fetch_add(1, std::memory_order_relaxed); }
  // The number that the next call will have, if no other thread makes one before.
  uint64_t peek() const { return next_.load(std::memory_order_relaxed); }

  // Waits until all calls before are done.
  void wait_for_turn(uint64_t number) const {
    uint64_t turn = turn_.load(std::memory_order_acquire);
    while (turn != number) {
      turn_.wait(turn, std::memory_order_acquire);
      turn = turn_.load(std::memory_order_acquire);
    }
  }

  // Whether that was before the deadline.
  bool wait_for_turn(uint64_t number, std::chrono::steady_clock::time_point deadline) const {
    using std::chrono::steady_clock;
    if (deadline == steady_clock::time_point::max()) {
      wait_for_turn(number);
      return true;
    }
    // An atomic wait has no time limit.
    return poll_until(deadline, [&] { return turn_.load(std::memory_order_acquire) == number; },
                      {.min_sleep = kSleep, .max_sleep = kSleep});
  }

  void done(uint64_t number) {
    turn_.store(number + 1, std::memory_order_release);
    turn_.notify_all();
  }

 private:
  static constexpr std::chrono::microseconds kSleep{100};

  std::atomic<uint64_t> next_{0};
  std::atomic<uint64_t> turn_{0};
};

}  // namespace cohort::internal
