#pragma once

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <stop_token>
#include <thread>
#include <utility>

#include "base/machine.h"
#include "base/mutex.h"

// How threads wait where no condition variable fits. This is the only file of the library that
// spins, yields or sleeps. For a call at a later time see base/timers.h.
//
//   spin_until    a condition that comes true within microseconds; the caller sleeps by other means
//   SpinWait      an atomic word that another thread changes and notifies
//   Poll          a change in shared memory or elsewhere that comes without a notification
//   Backoff       a peer or a file that may appear in seconds
//   pause_for     the time between two measurements
//   pause_unless_stopped  a pause that a request to stop the thread ends
namespace cohort::internal {

// Tells the core that this thread spins.
inline void relax_core() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

// Lets other threads that wait for this core run first.
inline void yield_core() { sched_yield(); }

// A thread that waits for a condition calls poll_until instead, which knows when to stop.
inline void pause_for(std::chrono::nanoseconds time) { std::this_thread::sleep_for(time); }

// Ends at once when a stop is requested.
inline void pause_unless_stopped(std::chrono::nanoseconds time, const std::stop_token& stop) {
  Mutex mutex;
  std::condition_variable_any stopped;  // notified by the token alone
  std::unique_lock lock(mutex);
  stopped.wait_for(lock, stop, time, [] { return false; });
}

// Waking a sleeping thread takes 30 to 50 microseconds (measured), so a thread that expects a
// change soon looks for it that long before it goes to sleep. Between looks the thread yields the
// core: where no core is spare, this costs hardly more than going to sleep at once.
inline constexpr std::chrono::microseconds kSpinTime{40};

// A computing thread that gets the core by a yield keeps it for milliseconds, even while another
// core is idle on which a sleeper would have been woken. After two such yields in a short time (a
// single one may be a pause of the machine), the threads of this process sleep at once for a while.
class YieldBackoff {
 public:
  using Clock = std::chrono::steady_clock;
  bool sleeps_at_once(Clock::time_point now) const { return now < sleep_until_.load(kRelaxed); }
  void note_yield(Clock::time_point began, Clock::time_point ended) {
    if (ended - began < kLong) return;
    if (ended - last_long_.exchange(ended, kRelaxed) < kShortTime) {
      sleep_until_.store(ended + kSleepAtOnce, kRelaxed);
    }
  }

 private:
  static constexpr auto kRelaxed = std::memory_order_relaxed;
  static constexpr std::chrono::milliseconds kLong{1}, kShortTime{30}, kSleepAtOnce{300};
  std::atomic<Clock::time_point> last_long_{}, sleep_until_{};
};
inline YieldBackoff yield_backoff;

// Returns whether condition() came true within kSpinTime.
template <typename Condition>
bool spin_until(const Condition& condition) {
  constexpr int kLooksBetweenYields = 32;
  auto now = YieldBackoff::Clock::now();
  if (yield_backoff.sleeps_at_once(now)) return condition();
  const auto deadline = now + kSpinTime;
  do {
    for (int look = 0; look < kLooksBetweenYields; ++look) {
      if (condition()) return true;
      relax_core();
    }
    yield_core();
    const auto began = std::exchange(now, YieldBackoff::Clock::now());
    yield_backoff.note_yield(began, now);
  } while (now < deadline);
  return condition();
}

// Looks at a word for some microseconds, then sleeps until the word changes. Where the waiting
// threads outnumber the cores, the thread yields the core between looks, because the awaited thread
// needs a core. Elsewhere the thread keeps its core: on a busy machine another program would hold
// it for milliseconds, while a sleeper gets a core as soon as it is woken.
class SpinWait {
 public:
  explicit SpinWait(size_t threads) : crowded_(threads > core_count()) {}

  // Returns the value of `word` once it differs from `old`. The thread that changes it notifies.
  uint32_t while_equal(const std::atomic<uint32_t>& word, uint32_t old) const {
    uint32_t now = spin(word, old);
    while (now == old) {
      word.wait(old, std::memory_order_acquire);
      now = word.load(std::memory_order_acquire);
    }
    return now;
  }

  // As while_equal, but without the sleep: returns `old` if the word still has that value.
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
  // Longer than waking up takes: with less, two threads that wait for each other in turn would have
  // to wake each other every time.
  static constexpr std::chrono::microseconds kBudget{200};
  // Other threads run meanwhile, and the awaited thread may need the core several times.
  static constexpr std::chrono::microseconds kCrowdedBudget{1000};
  static constexpr int kLooksPerClock = 32;

  // A few looks without reading the clock, which costs as much as a short wait.
  uint32_t look(const std::atomic<uint32_t>& word, uint32_t old) const {
    uint32_t now = word.load(std::memory_order_acquire);
    for (int i = 0; i < kLooksPerClock && now == old; ++i) {
      if (crowded_) {
        yield_core();
      } else {
        relax_core();
      }
      now = word.load(std::memory_order_acquire);
    }
    return now;
  }

  bool crowded_;
};

// How often to look for a change that comes without a notification: at first the thread only yields
// between looks, then it sleeps for a fraction of the time that it has waited.
struct PollPolicy {
  std::chrono::microseconds awake{200};
  std::chrono::microseconds min_sleep{20};
  std::chrono::microseconds max_sleep{500};
  int fraction = 32;

  // Looks at fixed intervals.
  static PollPolicy every(std::chrono::microseconds interval) {
    return {.awake = {}, .min_sleep = interval, .max_sleep = interval};
  }
};

class Poll {
 public:
  explicit Poll(const PollPolicy& policy = {}) : policy_(policy) {}

  // Waits between two looks. Calls before_sleep() first if it is going to sleep.
  template <typename BeforeSleep>
  void pause(const BeforeSleep& before_sleep) const {
    const auto waited = std::chrono::steady_clock::now() - began_;
    if (waited < policy_.awake) return yield_core();
    before_sleep();
    pause_for(std::clamp<std::chrono::steady_clock::duration>(
        waited / policy_.fraction, policy_.min_sleep, policy_.max_sleep));
  }

 private:
  const PollPolicy policy_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

// Returns whether condition() came true before the deadline; condition() is called at least once.
template <typename Condition>
bool poll_until(std::chrono::steady_clock::time_point deadline, const Condition& condition,
                const PollPolicy& policy = {}) {
  const Poll poll(policy);
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    poll.pause([] {});
  }
  return true;
}

// Waits between attempts, from `first` to `longest`, each wait twice as long as the one before.
class Backoff {
 public:
  Backoff(std::chrono::milliseconds first, std::chrono::milliseconds longest)
      : next_(std::min(first, longest)), longest_(longest) {}

  std::chrono::milliseconds next() const { return next_; }
  // Sleeps for the next wait, but at most for `at_most`.
  void wait(std::chrono::milliseconds at_most = std::chrono::milliseconds::max()) {
    pause_for(std::min(next_, at_most));
    next_ = std::min(2 * next_, longest_);
  }

 private:
  std::chrono::milliseconds next_;
  std::chrono::milliseconds longest_;
};

}  // namespace cohort::internal
