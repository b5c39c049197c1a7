#pragma once

#include <atomic>
#include <mutex>
#include <string_view>

namespace cohort::internal {

// The rule for locks: collect under the lock, act after it. A thread that holds a Mutex does not
// send on a connection, close one, read one or open one, and does not call back. A connection
// inside this process delivers a message on the thread that sends it, so the receiver may need the
// lock that the sender holds; any other connection may wait until the peer reads.
//
// Guard data with a Mutex, and wait with std::condition_variable_any. Where one thread at a time
// does work that sends or waits, such as connecting to a task or reducing with other workers, let
// it take a Turn. The check does not see a std::mutex; tools/check_source.py allows one only beside
// a std::condition_variable, where waits are too frequent for the other kind. Connections call
// check_no_mutex_held() when they send, read or open, which ends a program that breaks the rule.
// Closing is not checked: a connection closes with its last reference. The check is part
// of builds for development and tests, and not of Release builds (cmake/CohortToolchain.cmake): to
// count takes 3 ns for each lock; reading a variable, with one lock, takes 44.

#ifdef COHORT_CHECK_LOCKS
inline constexpr bool kChecksLocks = true;
#else
inline constexpr bool kChecksLocks = false;
#endif

inline constinit thread_local int num_mutexes_held = 0;  // by this thread

class Mutex {
 public:
  void lock() {
    mutex_.lock();
    if constexpr (kChecksLocks) ++num_mutexes_held;
  }
  void unlock() {
    if constexpr (kChecksLocks) --num_mutexes_held;
    mutex_.unlock();
  }

 private:
  std::mutex mutex_;
};

// Lets one thread at a time do work that may send and wait. An event of a connection does not take
// a Turn, because the thread that has the Turn may wait for that event.
class Turn {
 public:
  void lock() { mutex_.lock(); }
  bool try_lock() { return mutex_.try_lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

// Does work once, as std::once_flag with std::call_once does. If the work throws, the next call
// tries again; std::call_once would then hang under ThreadSanitizer, whose pthread_once takes no
// exceptions.
class OnceFlag {
 public:
  template <typename Work>
  void call(const Work& work) {
    if (done_.load(std::memory_order_acquire)) return;
    const std::lock_guard one_at_a_time(turn_);
    if (done_.load(std::memory_order_relaxed)) return;
    work();
    done_.store(true, std::memory_order_release);
  }

 private:
  std::atomic<bool> done_ = false;
  Turn turn_;
};

// Aborts, naming the action, when this thread holds a Mutex. `action`: "sends".
void check_no_mutex_held(std::string_view action);

}  // namespace cohort::internal
