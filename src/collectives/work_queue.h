#pragma once

#include <condition_variable>
#include <deque>
#include <functional>

#include "base/mutex.h"
#include "base/thread.h"

namespace cohort::internal {

// Does work on a thread of its own, in order. The thread starts with the first work. What is left
// in the end is still done.
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
