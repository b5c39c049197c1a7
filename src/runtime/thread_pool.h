#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <mutex>

#include "base/thread.h"

namespace cohort::internal {

// Threads for work that may block: no task waits for the thread of another task. A task gets an
// idle thread, or else a new one. A thread ends after it has been idle for a second, which is long
// compared to the 20 us that it takes to make one, so that a burst of tasks leaves no threads
// behind. The destructor waits for all tasks.
class ThreadPool {
 public:
  explicit ThreadPool(std::string name) : name_(std::move(name)) {}
  ~ThreadPool() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    ended_.clear();  // joins
    threads_.clear();
  }

  // `task` must not throw.
  void submit(std::function<void()> task) {
    std::list<Thread> ended;  // joined after the lock is released
    const std::lock_guard lock(mutex_);
    ended.swap(ended_);
    if (tasks_.size() < idle_) {
      wake_.notify_one();
    } else {
      threads_.emplace_back(name_, [this](const std::stop_token&) { work(); });
    }
    tasks_.push_back(std::move(task));
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      ++idle_;
      wake_.wait_for(lock, kIdleLimit, [&] { return stopping_ || !tasks_.empty(); });
      --idle_;
      if (tasks_.empty()) break;
      std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      task = nullptr;  // without the lock: the task may hold the last reference to a session
      lock.lock();
    }
    if (stopping_) return;
    const auto own = std::ranges::find_if(threads_, &Thread::is_this_thread);
    ended_.splice(ended_.end(), threads_, own);
  }

  static constexpr std::chrono::seconds kIdleLimit{1};
  const std::string name_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;  // guarded by mutex_, as all below
  size_t idle_ = 0;
  bool stopping_ = false;
  std::list<Thread> threads_;
  std::list<Thread> ended_;  // threads that only need to be joined
};

// The process's pool for the parts of graph runs.
inline ThreadPool& run_pool() {
  static ThreadPool pool("cohort-run");
  return pool;
}

}  // namespace cohort::internal
