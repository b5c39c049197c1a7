#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace cohort::internal {

// Waiting that costs nothing when it is short: looks again and again for some microseconds, then
// sleeps. Where the waiting threads are more than the cores it sleeps at once: whoever is waited
// for needs the core.
class SpinWait {
 public:
  explicit SpinWait(size_t threads)
      : budget_(threads <= std::thread::hardware_concurrency() ? kBudget : kNone) {}

  // Returns the value of `word` once it is no longer `old`. Whoever changes it notifies.
  uint32_t while_equal(const std::atomic<uint32_t>& word, uint32_t old) const {
    uint32_t now = word.load(std::memory_order_acquire);
    if (now != old) return now;
    if (budget_ != kNone) now = spin(word, old);
    while (now == old) {
      word.wait(old, std::memory_order_acquire);
      now = word.load(std::memory_order_acquire);
    }
    return now;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::microseconds kNone{0};
  static constexpr std::chrono::microseconds kBudget{50};
  static constexpr int kLooksPerClock = 32;

  uint32_t spin(const std::atomic<uint32_t>& word, uint32_t old) const {
    const Clock::time_point end = Clock::now() + budget_;
    uint32_t now = old;
    do {
      for (int i = 0; i < kLooksPerClock && now == old; ++i) {
        __builtin_ia32_pause();
        now = word.load(std::memory_order_acquire);
      }
    } while (now == old && Clock::now() < end);
    return now;
  }

  std::chrono::microseconds budget_;
};

}  // namespace cohort::internal
