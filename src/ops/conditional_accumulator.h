#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <unordered_map>

#include "base/mutex.h"
#include "ops/op.h"
#include "ops/waiting_line.h"

namespace cohort::internal {

// Gradients on their way from many workers to one update. It counts steps of its own: a gradient
// that was computed for an earlier step is dropped. Thread-safe; every call happens at once, as
// others see it.
class Accumulator : public Resource {
 public:
  // What it is for, which graphs that share it must agree on.
  struct Kind {
    DType dtype;
    Shape shape;  // of the gradients; unknown parts are fixed by the first one
    bool mean;    // else the sum
  };

  const std::string& name() const { return name_; }
  const Kind& kind() const { return kind_; }

  // How many gradients it holds.
  int64_t num_accumulated() const {
    const std::lock_guard lock(mutex_);
    return count_;
  }
  // Gradients of steps before `step` are dropped from now on. A smaller step than before is logged.
  void set_global_step(int64_t step);
  // A take that asks for more than `most` gradients waits for `most` only. The limit also holds for
  // takes that wait already. 0 and less removes the limit.
  void set_limit(int64_t most) {
    const std::lock_guard lock(mutex_);
    limit_ = most;
    takers_.wake_first();
  }
  // Ends the takes that wait now with Cancelled.
  void cancel_pending_takes() {
    const std::lock_guard lock(mutex_);
    ++cancels_;
    takers_.wake_first();
  }
  size_t pending_takes() const {
    const std::lock_guard lock(mutex_);
    return takers_.size();
  }

 protected:
  Accumulator(std::string name, Kind kind)
      : name_(std::move(name)), kind_(std::move(kind)), shape_(kind_.shape) {}

  // `add` takes the gradient in, or throws and leaves everything as it is.
  template <typename Add>
  void accumulate(int64_t local_step, const Add& add) {
    const std::lock_guard lock(mutex_);
    if (local_step < step_) return;
    add();
    ++count_;
    takers_.wake_first();
  }

  // Waits, in order of coming, until `required` gradients are there; `remove` then gets how many
  // there are and takes them out. Throws InvalidArgument unless `required` is positive, and what
  // cancels the run.
  template <typename Remove>
  void take_when(int64_t required, Cancellation& cancellation, const Remove& remove) {
    check_required(required);
    WaitingLine::Place place(takers_, mutex_, cancellation);
    const int64_t cancels = cancels_;
    const bool finished = place.wait(
        [&] {
          if (cancels_ != cancels) raise_cancelled();
          if (count_ < (limit_ > 0 ? std::min(required, limit_) : required)) return false;
          remove(count_);
          count_ = 0;
          ++step_;
          return true;
        },
        [&] { return waits_for(required); });
    if (!finished) cancellation.check();
  }

  // The mutex is held. Throws InvalidArgument unless `shape` fits those before, and fixes it.
  void fix_shape(const Shape& shape);
  const Shape& shape() const { return shape_; }
  int64_t num_held() const { return count_; }

 private:
  void check_required(int64_t required) const;
  [[noreturn]] void raise_cancelled() const;
  std::string waits_for(int64_t required) const;  // in words; the mutex is held

  const std::string name_;
  const Kind kind_;

  mutable Mutex mutex_;
  Shape shape_;  // guarded by mutex_, as all below
  WaitingLine takers_;
  int64_t step_ = 0;
  int64_t count_ = 0;
  int64_t limit_ = 0;
  int64_t cancels_ = 0;  // how often pending takes were cancelled
};

// Whole tensors.
class DenseAccumulator : public Accumulator {
 public:
  DenseAccumulator(std::string name, Kind kind) : Accumulator(std::move(name), std::move(kind)) {}

  void apply(const Tensor& gradient, int64_t local_step);
  // The sum of all that are there, or their mean: also of those beyond `required`.
  Tensor take(int64_t required, Cancellation& cancellation);

 private:
  at::Tensor sum_;
  bool owned_ = false;  // sum_ is not shared
};

// Rows of tensors. The mean divides each row by the number of gradients that had it.
class SparseAccumulator : public Accumulator {
 public:
  SparseAccumulator(std::string name, Kind kind) : Accumulator(std::move(name), std::move(kind)) {}

  // A row that comes several times in one gradient is added up and counts once.
  void apply(const Tensor& values, const Tensor& indices, int64_t local_step);

  struct Rows {
    Tensor values;
    Tensor indices;  // ascending
  };
  Rows take(int64_t required, Cancellation& cancellation);

 private:
  struct Row {
    int64_t index;
    int64_t gradients = 0;  // how many had it
    int64_t last = -1;      // the latest of them
  };
  struct Held {
    std::unordered_map<int64_t, int64_t> slots;  // by index
    std::vector<Row> rows;                       // by slot
    at::Tensor sums;                             // the same, with room for more
  };

  at::Tensor slots_for(const at::Tensor& indices);
  void make_room(const at::Tensor& values);
  static Rows result(Held held, bool mean);

  Held held_;
};

}  // namespace cohort::internal
