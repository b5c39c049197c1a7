#include "runtime/thread_pool.h"

namespace cohort::internal {

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  threads_.clear();  // joins
}

void ThreadPool::submit(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  if (tasks_.size() > idle_) {
    threads_.emplace_back(name_, [this](const std::stop_token&) { work(); });
  } else {
    wake_.notify_one();
  }
}

void ThreadPool::work() {
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

ThreadPool& run_pool() {
  static ThreadPool pool("cohort-run");
  return pool;
}

}  // namespace cohort::internal
