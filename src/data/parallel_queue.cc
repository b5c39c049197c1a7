#include "data/parallel_queue.h"

#include <algorithm>

#include "base/waiting.h"

namespace cohort::data::internal {

ParallelQueue::ParallelQueue(const std::stop_token& outer, Options options)
    : options_(options),
      link_(outer, [source = stop_]() mutable { source.request_stop(); }),
      capacity_(options.capacity),
      max_capacity_(options.max_capacity),
      resting_(options.may_pause),
      wake_(stop_.get_token(), [this] { wake_all(); }) {}

ParallelQueue::~ParallelQueue() { finish(); }

void ParallelQueue::finish() {
  stop_.request_stop();
  threads_.clear();  // joins
}

void ParallelQueue::wake_all() {
  const std::lock_guard lock(mutex_);
  room_.notify_all();
  ready_.notify_all();
}

void ParallelQueue::start() {
  for (int i = 0; i < options_.threads; ++i) {
    threads_.emplace_back(options_.name, [this](const std::stop_token&) { run(); });
  }
}

bool ParallelQueue::has_room() const {
  if (ended_ || paused_ || pulling_) return false;
  const int64_t held = taken_count_.load(std::memory_order_relaxed);
  return static_cast<int64_t>(slots_.size()) + held < capacity_;
}

void ParallelQueue::run() {
  Lock lock(mutex_);
  while (!stop_.stop_requested()) {
    if (may_pull()) {
      make(lock);
      continue;
    }
    ++sleeping_;
    room_.wait(lock, [this] { return may_pull() || stop_.stop_requested(); });
    --sleeping_;
  }
}

// Called with the lock held. It releases the lock while it makes the element.
void ParallelQueue::make(Lock& lock) {
  const auto slot = std::make_shared<Slot>();
  slots_.push_back(slot);
  ++active_;
  pulling_ = true;
  lock.unlock();

  Work work;
  bool found = true;
  const auto start = std::chrono::steady_clock::now();
  Status failure = capture_status([&] { found = pull_(slot->element, work); });

  lock.lock();
  if (options_.may_pause) learn_time(start);
  pulling_ = false;
  if (!found) {
    ended_ = true;
    std::erase(slots_, slot);
    --active_;
    made_.fetch_add(1, std::memory_order_relaxed);
    ready_.notify_all();
    return;
  }
  if (failure.ok() && work) {
    if (sleeping_ > 0 && may_pull()) room_.notify_one();
    lock.unlock();
    failure = capture_status([&] { slot->element = work(); });
    work = nullptr;
    lock.lock();
  }
  if (failure.ok() && options_.small_bytes > 0) learn_size(slot->element);
  slot->failure = std::move(failure);
  slot->ready = true;
  --active_;
  made_.fetch_add(1, std::memory_order_relaxed);
  ready_.notify_all();
}

// Lets more elements wait if they are small: waking a thread up takes longer than making one small
// element.
void ParallelQueue::learn_size(const Element& element) {
  int64_t bytes = 1;
  for (const Tensor& tensor : tensors_of(element)) {
    constexpr int64_t kStringBytes = 4 << 10;  // an estimate for one string
    bytes += tensor.size() * (tensor.dtype() == kString ? kStringBytes : size_of(tensor.dtype()));
  }
  constexpr int64_t kMaxElements = 256;
  max_capacity_ =
      std::max(options_.max_capacity, std::min(kMaxElements, options_.small_bytes / bytes));
  capacity_ = std::min(capacity_, max_capacity_);
}

// Passing an element to another thread takes about a microsecond, or several if that thread sleeps.
// The consumer itself makes elements that take less time than that.
void ParallelQueue::learn_time(std::chrono::steady_clock::time_point start) {
  constexpr double kMaxNanoseconds = 1e6;  // so that one slow pull is soon forgotten
  constexpr double kShare = 1.0 / 32;
  constexpr double kQuick = 2e3;
  constexpr double kSlow = 4e3;
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
  pull_nanoseconds_ += (std::min(took.count(), kMaxNanoseconds) - pull_nanoseconds_) * kShare;
  resting_ = pull_nanoseconds_ < (resting_ ? kSlow : kQuick);
}

std::deque<std::shared_ptr<ParallelQueue::Slot>>::iterator ParallelQueue::ready_slot() {
  if (!options_.ordered) {
    return std::ranges::find_if(slots_, [](const auto& slot) { return slot->ready; });
  }
  return slots_.empty() || !slots_.front()->ready ? slots_.end() : slots_.begin();
}

// Waits until a slot is ready or the end is reached.
void ParallelQueue::wait_for_slot(Lock& lock) {
  const auto done = [this] { return ready_slot() != slots_.end() || (ended_ && slots_.empty()); };
  if (done()) return;
  // The consumer has to wait, so a larger buffer may help.
  if (!resting_) capacity_ = std::min(max_capacity_, 2 * capacity_);
  while (!done()) {
    if (stop_.stop_requested()) {
      raise(Code::Cancelled,
            "[Iterator] the iterator was destroyed while elements were being made");
    }
    if (slots_.empty() && has_room()) {
      make(lock);
      continue;
    }
    if (sleeping_ > 0 && may_pull()) room_.notify_one();
    if (!spin(lock)) ready_.wait(lock);
  }
}

// Spins for a few microseconds until an element is made, because sleeping and waking up take
// longer. Returns false if none was made.
bool ParallelQueue::spin(Lock& lock) {
  constexpr int kTurns = 400;
  const uint64_t before = made_.load(std::memory_order_relaxed);
  lock.unlock();
  bool changed = false;
  for (int turn = 0; turn < kTurns && !changed; ++turn) {
    cohort::internal::relax_core();
    changed = made_.load(std::memory_order_relaxed) != before;
  }
  lock.lock();
  return changed || made_.load(std::memory_order_relaxed) != before;
}

void ParallelQueue::take_ready() {
  const int64_t most = std::max<int64_t>(1, capacity_ / 2);
  for (int64_t i = 0; i < most; ++i) {
    const auto found = ready_slot();
    if (found == slots_.end()) break;
    taken_.push_back(std::move(*found));
    slots_.erase(found);
  }
  // next() removes the first of them at once.
  taken_count_ = std::max<int64_t>(0, static_cast<int64_t>(taken_.size()) - 1);
  if (sleeping_ > 0 && may_pull() && 2 * static_cast<int64_t>(slots_.size()) <= capacity_) {
    room_.notify_one();
  }
}

// Makes an element on the consumer's thread. No lock is needed, because no other thread was
// started.
bool ParallelQueue::make_in_consumer(Element& out) {
  // Reading the clock is a large part of the cost of the fastest elements, so only some are timed.
  constexpr double kVeryQuick = 1e3;
  constexpr int kBetween = 8;
  const bool timed =
      pull_nanoseconds_ > kVeryQuick || made_in_consumer_ < 32 || made_in_consumer_ % kBetween == 0;
  ++made_in_consumer_;
  const auto start =
      timed ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point();
  Work none;
  const Status failure = capture_status([&] { ended_ = !pull_(out, none); });
  if (timed) learn_time(start);
  throw_if_error(failure);
  return !ended_;
}

bool ParallelQueue::next(Element& out) {
  if (threads_.empty() && resting_ && taken_.empty() && slots_.empty()) {
    return !ended_ && make_in_consumer(out);
  }
  if (taken_.empty()) {
    Lock lock(mutex_);
    if (threads_.empty() && !ended_ && !resting_) start();
    wait_for_slot(lock);
    take_ready();
  } else {
    taken_count_.fetch_sub(1, std::memory_order_relaxed);
  }
  if (taken_.empty()) return false;
  const std::shared_ptr<Slot> slot = std::move(taken_.front());
  taken_.pop_front();
  throw_if_error(slot->failure);
  out = std::move(slot->element);
  return true;
}

void ParallelQueue::position(PositionFields& fields, const std::function<void()>& visit_input) {
  Lock lock(mutex_);
  // The elements that are being made belong to the position, and no thread begins another one while
  // the input is visited without the lock.
  paused_ = true;
  ready_.wait(lock, [this] { return active_ == 0; });
  visit_slots(fields);
  lock.unlock();
  const Status failure = capture_status(visit_input);
  lock.lock();
  paused_ = false;
  room_.notify_all();
  throw_if_error(failure);
}

void ParallelQueue::visit_slots(PositionFields& fields) {
  fields.flag(ended_);
  fields.integer(capacity_);
  capacity_ = std::clamp(capacity_, options_.capacity, max_capacity_);
  std::vector<std::shared_ptr<Slot>> all(taken_.begin(), taken_.end());
  all.insert(all.end(), slots_.begin(), slots_.end());
  fields.list(all, INT64_MAX, [&](std::shared_ptr<Slot>& slot) {
    if (fields.reading()) slots_.push_back(slot = std::make_shared<Slot>());
    bool ok = slot->failure.ok();
    fields.flag(ok);
    ok ? fields.element(slot->element) : fields.status(slot->failure);
    slot->ready = true;
  });
}

}  // namespace cohort::data::internal
