#include "cluster/timers.h"

#include "cohort/error.h"

namespace cohort::internal {

Timers::~Timers() {
  {
    const std::lock_guard lock(mutex_);
    thread_.request_stop();
  }
  changed_.notify_all();
  thread_ = {};
}

Timers::Key Timers::at(Deadline time, std::function<void()> call) {
  const std::lock_guard lock(mutex_);
  if (!thread_.joinable()) {
    thread_ = Thread("cohort-timers", [this](const std::stop_token& stop) { work(stop); });
  }
  const Key key{time, next_++};
  const bool first = calls_.empty() || key < calls_.begin()->first;
  calls_.emplace(key, std::move(call));
  if (first) changed_.notify_all();
  return key;
}

void Timers::forget(const Key& key) {
  decltype(calls_)::node_type forgotten;  // let go of after the lock: it may hold the last link
  const std::lock_guard lock(mutex_);
  forgotten = calls_.extract(key);
}

void Timers::work(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    if (calls_.empty()) {
      changed_.wait(lock);
    } else if (const Deadline due = calls_.begin()->first.first;
               std::chrono::steady_clock::now() < due) {
      changed_.wait_until(lock, due);
    } else {
      std::function<void()> call = std::move(calls_.begin()->second);
      calls_.erase(calls_.begin());
      lock.unlock();
      (void)capture_status(call);
      call = nullptr;  // before the lock: it may hold the last link
      lock.lock();
    }
  }
}

}  // namespace cohort::internal
