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
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // `task` must not throw.
  void submit(std::function<void()> task);

 private:
  void work();

  const std::string name_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;  // guarded by mutex_, as all below
  size_t idle_ = 0;
  bool stopping_ = false;
  std::list<Thread> threads_;
};

// The process's pool for the parts of graph runs.
ThreadPool& run_pool();

}  // namespace cohort::internal
