#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <mutex>

#include "base/thread.h"

namespace cohort::internal {

// Threads for work that may block: a task never waits for another one's thread. An idle thread is
// used again; when there is none, a new one is made. The destructor waits for all tasks.
class WorkerPool {
 public:
  explicit WorkerPool(std::string name) : name_(std::move(name)) {}
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

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
WorkerPool& run_pool();

}  // namespace cohort::internal
