#pragma once

#include <sched.h>

#include <atomic>
#include <chrono>
#include <utility>

namespace cohort::internal {

// Waking a sleeping thread takes some 30 to 50 microseconds, so who expects something soon looks
// for it that long before going to sleep. Between looks the core is offered to others: where none
// is spare, this is hardly more than going to sleep at once.
inline constexpr std::chrono::microseconds kSpinTime{40};

// But a thread that computes keeps a core that it was offered for milliseconds, even while another
// core is idle, where a sleeper would have been woken. Where that happens twice in a short time
// (once may be the machine's own pause), this process sleeps at once for a while.
class CoreOffers {
 public:
  using Clock = std::chrono::steady_clock;
  bool are_taken_for_long(Clock::time_point now) const { return now < sleep_until_.load(kRelaxed); }
  void note(Clock::time_point offered, Clock::time_point back) {
    if (back - offered < kLong) return;
    if (back - last_long_.exchange(back, kRelaxed) < kShortTime) {
      sleep_until_.store(back + kSleepAtOnce, kRelaxed);
    }
  }

 private:
  static constexpr auto kRelaxed = std::memory_order_relaxed;
  static constexpr std::chrono::milliseconds kLong{1}, kShortTime{30}, kSleepAtOnce{300};
  std::atomic<Clock::time_point> last_long_{}, sleep_until_{};
};
inline CoreOffers core_offers;

inline void relax_core() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

// Returns whether condition() came true within the time.
template <typename Condition>
bool spin_until(const Condition& condition) {
  constexpr int kLooksBetweenOffers = 32;
  auto now = CoreOffers::Clock::now();
  if (core_offers.are_taken_for_long(now)) return condition();
  const auto deadline = now + kSpinTime;
  do {
    for (int look = 0; look < kLooksBetweenOffers; ++look) {
      if (condition()) return true;
      relax_core();
    }
    sched_yield();
    const auto offered = std::exchange(now, CoreOffers::Clock::now());
    core_offers.note(offered, now);
  } while (now < deadline);
  return condition();
}

}  // namespace cohort::internal
