#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <mutex>

#include "base/thread.h"

namespace cohort::internal {

// Threads for work that may block: no task waits for the thread of another task. An idle thread is
// used again; without one, a new thread is made. The destructor waits for all tasks.
class ThreadPool {
 public:
  explicit ThreadPool(std::string name) : name_(std::move(name)) {}
  ~ThreadPool() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    threads_.clear();  // joins
  }

  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // `task` must not throw.
  void submit(std::function<void()> task) {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    if (tasks_.size() > idle_) {
      threads_.emplace_back(name_, [this](const std::stop_token&) { work(); });
    } else {
      wake_.notify_one();
    }
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      ++idle_;
      wake_.wait(lock, [&] { return stopping_ || !tasks_.empty(); });
      --idle_;
      if (tasks_.empty()) return;
      std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      task = nullptr;  // without the lock: the task may hold the last reference to a session
      lock.lock();
    }
  }

  const std::string name_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;  // guarded by mutex_, as all below
  size_t idle_ = 0;
  bool stopping_ = false;
  std::list<Thread> threads_;
};

// The process's pool for the parts of graph runs.
inline ThreadPool& run_pool() {
  static ThreadPool pool("cohort-run");
  return pool;
}

}  // namespace cohort::internal
