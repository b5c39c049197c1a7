#pragma once

#include <atomic>
#include <cstdint>

namespace cohort::internal {

// Numbers calls, and lets them happen one after the other in that order, whichever threads make
// them. Thread-safe.
class CallOrder {
 public:
  // The numbers begin with 0.
  uint64_t next_number() { return next_.fetch_add(1, std::memory_order_relaxed); }

  // Waits until all calls before are done.
  void wait_for_turn(uint64_t number) const {
    uint64_t turn = turn_.load(std::memory_order_acquire);
    while (turn != number) {
      turn_.wait(turn, std::memory_order_acquire);
      turn = turn_.load(std::memory_order_acquire);
    }
  }

  void done(uint64_t number) {
    turn_.store(number + 1, std::memory_order_release);
    turn_.notify_all();
  }

 private:
  std::atomic<uint64_t> next_{0};
  std::atomic<uint64_t> turn_{0};
};

}  // namespace cohort::internal
