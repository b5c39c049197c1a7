#pragma once

#include <atomic>
#include <mutex>

#include "base/mutex.h"

namespace cohort::internal {

// What std::once_flag and std::call_once are, for work that may throw: the next call tries again.
// std::call_once hangs after an exception under ThreadSanitizer, whose pthread_once takes none.
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

}  // namespace cohort::internal
