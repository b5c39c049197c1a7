#include "data/worker_queue.h"

#include <algorithm>

namespace cohort::data::internal {

WorkerQueue::WorkerQueue(const std::stop_token& outer, Options options)
    : options_(options),
      link_(outer, [source = stop_]() mutable { source.request_stop(); }),
      capacity_(options.capacity) {}

WorkerQueue::~WorkerQueue() { finish(); }

void WorkerQueue::finish() {
  stop_.request_stop();
  threads_.clear();  // joins
}

void WorkerQueue::start() {
  for (int i = 0; i < options_.threads; ++i) {
    threads_.emplace_back(options_.name, [this](const std::stop_token&) { run(); });
  }
}

bool WorkerQueue::may_pull() const {
  return !ended_ && !paused_ && !pulling_ && static_cast<int64_t>(slots_.size()) < capacity_;
}

void WorkerQueue::run() {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop(), [this] { return may_pull(); })) make(lock);
}

// Called with the lock held, as it is again on return.
void WorkerQueue::make(std::unique_lock<std::mutex>& lock) {
  const auto slot = std::make_shared<Slot>();
  slots_.push_back(slot);
  ++active_;
  pulling_ = true;
  lock.unlock();

  std::optional<Work> work;
  Status failure = capture_status([&] { work = pull_(); });

  lock.lock();
  pulling_ = false;
  if (failure.ok() && !work) {
    ended_ = true;
    std::erase(slots_, slot);
    --active_;
    changed_.notify_all();
    return;
  }
  if (failure.ok()) {
    if (options_.threads > 1) changed_.notify_all();
    lock.unlock();
    failure = capture_status([&] { slot->element = (*work)(); });
    work.reset();
    lock.lock();
  }
  slot->failure = std::move(failure);
  slot->ready = true;
  --active_;
  changed_.notify_all();
}

bool WorkerQueue::next(Element& out) {
  std::unique_lock lock(mutex_);
  if (threads_.empty() && !ended_) start();
  auto found = slots_.end();
  const auto find = [&] {
    found = options_.ordered
                ? (slots_.empty() || !slots_.front()->ready ? slots_.end() : slots_.begin())
                : std::ranges::find_if(slots_, [](const auto& slot) { return slot->ready; });
    return found != slots_.end() || (ended_ && slots_.empty());
  };
  if (!find()) {
    // The consumer is quicker than the buffer is deep.
    capacity_ = std::min(options_.max_capacity, 2 * capacity_);
    changed_.notify_all();
    if (!changed_.wait(lock, stop(), find)) {
      raise(Code::Cancelled, "[Iterator] it was destroyed while elements were being made");
    }
  }
  if (found == slots_.end()) return false;
  const std::shared_ptr<Slot> slot = std::move(*found);
  slots_.erase(found);
  changed_.notify_all();
  lock.unlock();
  throw_if_error(slot->failure);
  out = std::move(slot->element);
  return true;
}

void WorkerQueue::pause_and_save(StateWriter& state) {
  std::unique_lock lock(mutex_);
  paused_ = true;
  changed_.wait(lock, [this] { return active_ == 0; });
  state.flag(ended_);
  state.integer(capacity_);
  state.integer(static_cast<int64_t>(slots_.size()));
  for (const auto& slot : slots_) {
    state.flag(slot->failure.ok());
    if (slot->failure.ok()) {
      state.element(slot->element);
    } else {
      state.status(slot->failure);
    }
  }
}

void WorkerQueue::resume() {
  const std::lock_guard lock(mutex_);
  paused_ = false;
  changed_.notify_all();
}

void WorkerQueue::restore(StateReader& state) {
  ended_ = state.flag();
  capacity_ = std::clamp(state.integer(), options_.capacity, options_.max_capacity);
  const int64_t count = state.integer(0, INT64_MAX);
  for (int64_t i = 0; i < count; ++i) {
    auto slot = std::make_shared<Slot>();
    slot->ready = true;
    if (state.flag()) {
      slot->element = state.element();
    } else {
      slot->failure = state.status();
    }
    slots_.push_back(std::move(slot));
  }
}

}  // namespace cohort::data::internal
