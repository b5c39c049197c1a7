#include "ops/fifo_queue.h"

#include <algorithm>

#include "base/raise.h"

namespace cohort::internal {

QueueState::QueueState(std::string name, int64_t capacity, std::vector<int64_t> components)
    : name_(std::move(name)), capacity_(capacity), components_(std::move(components)) {}

bool QueueState::has_room() const {
  return capacity_ == kNoLimit || static_cast<int64_t>(elements_.size()) < capacity_;
}

// Whether nothing will be put in any more.
bool QueueState::is_finished() const { return closed_ && (cancel_pending_ || enqueuers_.empty()); }

void QueueState::enqueue(std::vector<Element> elements, Cancellation& cancellation) {
  WaitingLine::Place place(enqueuers_, mutex_, cancellation);
  if (closed_) raise(Code::Cancelled, "[Queue] '{}' is closed", name_);
  size_t next = 0;
  const bool finished = place.wait([&] {
    if (cancel_pending_) {
      raise(Code::Cancelled, "[Queue] '{}' was closed while an enqueue waited for room", name_);
    }
    const size_t before = next;
    while (next < elements.size() && has_room()) elements_.push_back(std::move(elements[next++]));
    if (next > before) dequeuers_.wake_first();
    return next == elements.size();
  });
  if (finished) return;
  // A thread that takes from a closed queue may have waited for this one.
  dequeuers_.wake_first();
  cancellation.check();
}

void QueueState::put_back(std::vector<Element>& elements) {
  elements_.insert(elements_.begin(), std::make_move_iterator(elements.begin()),
                   std::make_move_iterator(elements.end()));
}

std::vector<QueueState::Element> QueueState::dequeue(int64_t count, Cancellation& cancellation,
                                                     LongWait wait) {
  const auto wanted = static_cast<size_t>(count);
  std::vector<Element> taken;
  WaitingLine::Place place(dequeuers_, mutex_, cancellation);
  // Elements are taken as they come, so that more may be wanted than there is room for.
  const auto take = [&] {
    while (taken.size() < wanted && !elements_.empty()) {
      taken.push_back(std::move(elements_.front()));
      elements_.pop_front();
      enqueuers_.wake_first();
    }
    if (taken.size() == wanted || !is_finished()) return taken.size() == wanted;
    put_back(taken);
    raise(Code::OutOfRange, "[Queue] '{}' is closed and has {} elements, but {} were asked for",
          name_, elements_.size(), count);
  };
  const auto what = [&] { return fmt::format("[Queue] dequeue from '{}', which is empty", name_); };
  const bool on_purpose = wait == LongWait::IsOnPurpose;
  if (!(on_purpose ? place.wait(take) : place.wait(take, what))) {
    put_back(taken);
    cancellation.check();
  }
  return taken;
}

void QueueState::close(bool cancel_pending) {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  cancel_pending_ |= cancel_pending;
  enqueuers_.wake_first();
  dequeuers_.wake_first();
}

int64_t QueueState::size() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(elements_.size());
}

size_t QueueState::pending_enqueues() const {
  const std::lock_guard lock(mutex_);
  return enqueuers_.size();
}

size_t QueueState::pending_dequeues() const {
  const std::lock_guard lock(mutex_);
  return dequeuers_.size();
}

}  // namespace cohort::internal
