#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <optional>

#include "base/mutex.h"
#include "base/thread.h"
#include "base/waiting.h"
#include "collectives/call.h"

namespace cohort::internal {

// The calls that this member has made lately, and those that other members have announced or
// refused. Thread-safe.
class CallLog {
 public:
  // Two members that disagree on one call.
  struct Difference {
    Call mine;
    int other = 0;
    Call theirs;
  };

  // A call begins. What others have announced of it before is compared.
  std::optional<Difference> begin(const Call& mine);
  void end();
  // Another member makes `theirs`. Compared now, or when this member gets that far.
  std::optional<Difference> announced(int other, const Call& theirs);

  // Another member was asked for an invalid call. It owes the others a call with that number.
  struct Refusal {
    int other = 0;
    uint64_t number = 0;
    std::string why = {};
    std::chrono::steady_clock::time_point when = std::chrono::steady_clock::now();
  };
  void refused(Refusal refusal);
  // A refusal of that call or an earlier one, in whose place the member has announced no other call
  // for that time.
  std::optional<Refusal> refusal(uint64_t number, std::chrono::nanoseconds age) const;

  // That member's last refusal, if it has announced no other call in its place.
  std::optional<Refusal> refusal_of(int other) const;

  // How many calls have begun; the last of them.
  uint64_t begun() const;
  Call last() const;
  // How many calls have ended: all with a lower number.
  uint64_t ended() const;
  // "in call 7, all_reduce(Sum) of float32 (3,), for 2.5 s", or what ended when.
  std::string activity() const;

 private:
  static constexpr size_t kRemembered = 64;
  using Seconds = double;
  static Seconds now();

  mutable Mutex mutex_;
  // Guarded by mutex_:
  std::array<Call, kRemembered> recent_;  // by number
  uint64_t begun_ = 0;                    // how many
  bool is_running_ = false;
  Seconds since_ = now();
  std::map<std::pair<uint64_t, int>, Call> announced_;  // by number and member; not begun here
  std::map<int, Refusal> refusals_;                     // by member
  // Whether refusals_ has any: a wait asks again and again.
  std::atomic<bool> has_refusals_{false};
};

// Numbers calls, and runs them one after the other in that order, whichever threads make them.
// Thread-safe.
class CallOrder {
 public:
  // The numbers begin with 0.
  uint64_t next_number() { return next_.fetch_add(1, std::memory_order_relaxed); }
  // The number that the next call will have, if no other thread makes a call before.
  uint64_t peek() const { return next_.load(std::memory_order_relaxed); }

  // Waits until all calls before are done. Returns whether that was before the deadline.
  bool wait_for_turn(uint64_t number, Deadline deadline = Deadline::max()) const {
    if (deadline != Deadline::max()) {
      // An atomic wait has no time limit.
      return poll_until(deadline, [&] { return turn_.load(std::memory_order_acquire) == number; },
                        {.min_sleep = kSleep, .max_sleep = kSleep});
    }
    uint64_t turn = 0;
    while ((turn = turn_.load(std::memory_order_acquire)) != number) {
      turn_.wait(turn, std::memory_order_acquire);
    }
    return true;
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

// Does work on a thread of its own, in order. The thread starts with the first work. The destructor
// waits until all work is done.
class WorkQueue {
 public:
  ~WorkQueue() {
    Thread thread;
    {
      const std::lock_guard lock(mutex_);
      std::swap(thread, thread_);
    }
    thread.request_stop();
  }

  void push(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
    if (!thread_.joinable()) {
      thread_ = Thread("collectives", [this](const std::stop_token& stop) { run(stop); });
    }
    changed_.notify_one();
  }

 private:
  void run(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (changed_.wait(lock, stop, [this] { return !work_.empty(); })) {
      const std::function<void()> next = std::move(work_.front());
      work_.pop_front();
      lock.unlock();
      next();
      lock.lock();
    }
  }

  Mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<std::function<void()>> work_;  // guarded by mutex_
  Thread thread_;                           // guarded by mutex_
};

}  // namespace cohort::internal
