#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>

#include "base/mutex.h"
#include "base/thread.h"
#include "base/waiting.h"

namespace cohort::internal {

// Numbers calls, and runs them one after the other in that order, whichever threads make them.
// Thread-safe.
class CallOrder {
 public:
  // The numbers begin with 0.
  uint64_t next_number() { return next_.fetch_add(1, std::memory_order_relaxed); }
  // The number that the next call will have, if no other thread makes a call before.
  uint64_t peek() const { return next_.load(std::memory_order_relaxed); }

  // Waits until all calls before are done.
  void wait_for_turn(uint64_t number) const {
    uint64_t turn = turn_.load(std::memory_order_acquire);
    while (turn != number) {
      turn_.wait(turn, std::memory_order_acquire);
      turn = turn_.load(std::memory_order_acquire);
    }
  }

  // The same; returns whether the turn came before the deadline.
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
