#pragma once

#include <deque>

#include "base/mutex.h"
#include "ops/op.h"
#include "ops/waiting_line.h"

namespace cohort::internal {

// The state behind a FIFO queue: elements, each a few tensors, and those who wait to put or take
// some, both in order. Thread-safe.
class QueueState : public Resource {
 public:
  using Element = std::vector<Tensor>;

  static constexpr int64_t kNoLimit = -1;

  QueueState(std::string name, int64_t capacity, std::vector<int64_t> components)
      : name_(std::move(name)), capacity_(capacity), components_(std::move(components)) {}

  const std::string& name() const { return name_; }
  int64_t capacity() const { return capacity_; }
  // What an element is made of, as pack_specs writes it.
  const std::vector<int64_t>& components() const { return components_; }

  // Puts the elements in, waiting while the queue is full. Throws Cancelled once it is closed, and
  // what cancels the run; elements that are in by then stay.
  void enqueue(std::vector<Element> elements, Cancellation& cancellation);

  // Takes `count` elements, waiting for those that are not there yet. Throws OutOfRange when the
  // queue is closed and there will never be so many, and what cancels the run; then none is taken.
  // A long wait is noted as an activity, unless it is there on purpose.
  enum class LongWait { IsNoted, IsOnPurpose };
  std::vector<Element> dequeue(int64_t count, Cancellation& cancellation,
                               LongWait wait = LongWait::IsNoted);

  // From here on enqueue() throws. Those that wait already go on, or end with Cancelled when
  // `cancel_pending`. Closing again is harmless.
  void close(bool cancel_pending);

  int64_t size() const {
    const std::lock_guard lock(mutex_);
    return static_cast<int64_t>(elements_.size());
  }
  size_t pending_enqueues() const {
    const std::lock_guard lock(mutex_);
    return enqueuers_.size();
  }
  size_t pending_dequeues() const {
    const std::lock_guard lock(mutex_);
    return dequeuers_.size();
  }

 private:
  // The mutex is held.
  bool has_room() const {
    return capacity_ == kNoLimit || static_cast<int64_t>(elements_.size()) < capacity_;
  }
  // Whether nothing will be put in any more.
  bool is_finished() const { return closed_ && (cancel_pending_ || enqueuers_.empty()); }
  void put_back(std::vector<Element>& elements);

  const std::string name_;
  const int64_t capacity_;
  const std::vector<int64_t> components_;

  mutable Mutex mutex_;
  std::deque<Element> elements_;  // guarded by mutex_, as all below
  WaitingLine enqueuers_;
  WaitingLine dequeuers_;
  bool closed_ = false;
  bool cancel_pending_ = false;
};

}  // namespace cohort::internal
