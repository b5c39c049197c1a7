#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace cohort::internal {

// Waiting that costs nothing when it is short: looks again and again for some microseconds, then
// sleeps. Where the waiting threads are more than the cores it gives the core away between looks:
// whoever is waited for needs it. Elsewhere it does not: on a busy machine another program would
// keep the core for milliseconds, while who sleeps gets it back as soon as he is woken.
class SpinWait {
 public:
  explicit SpinWait(size_t threads) : crowded_(threads > std::thread::hardware_concurrency()) {}

  // Returns the value of `word` once it is no longer `old`. Whoever changes it notifies.
  uint32_t while_equal(const std::atomic<uint32_t>& word, uint32_t old) const {
    uint32_t now = spin(word, old);
    while (now == old) {
      word.wait(old, std::memory_order_acquire);
      now = word.load(std::memory_order_acquire);
    }
    return now;
  }

  // The same, but without the sleep: returns `old` when that is still the value.
  uint32_t spin(const std::atomic<uint32_t>& word, uint32_t old) const {
    uint32_t now = look(word, old);
    if (now != old) return now;
    const Clock::time_point end = Clock::now() + (crowded_ ? kCrowdedBudget : kBudget);
    do {
      now = look(word, old);
    } while (now == old && Clock::now() < end);
    return now;
  }

 private:
  using Clock = std::chrono::steady_clock;
  // Longer than waking up takes: else two who wait for each other would wake each other for ever.
  static constexpr std::chrono::microseconds kBudget{200};
  // Others have their turns meanwhile, and those who are waited for may need several.
  static constexpr std::chrono::microseconds kCrowdedBudget{1000};
  static constexpr int kLooksPerClock = 32;

  // A while short enough to do without a clock, which costs as much as a short wait.
  uint32_t look(const std::atomic<uint32_t>& word, uint32_t old) const {
    uint32_t now = word.load(std::memory_order_acquire);
    for (int i = 0; i < kLooksPerClock && now == old; ++i) {
      pause();
      now = word.load(std::memory_order_acquire);
    }
    return now;
  }

  void pause() const {
    if (crowded_) {
      std::this_thread::yield();
    } else {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
  }

  bool crowded_;
};

}  // namespace cohort::internal
