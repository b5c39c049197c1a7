#pragma once

#include <atomic>
#include <optional>
#include <utility>

#include "base/mutex.h"

namespace cohort::internal {

// MadeOnce holds a value that the copies of a layer share. One copy makes the value, either in the
// constructor or in the first call of the layer. Thread-safe.
template <typename T>
class MadeOnce {
 public:
  // Returns null before keep().
  const T* get() const { return made_.load(std::memory_order_acquire); }
  // Keeps `value` and calls `then` with it, unless a value is kept. Returns the kept value.
  template <typename Then>
  const T& keep(T value, const Then& then) {
    const std::lock_guard lock(mutex_);
    if (!value_) {
      value_.emplace(std::move(value));
      then(*value_);
      made_.store(&*value_, std::memory_order_release);
    }
    return *value_;
  }

 private:
  Mutex mutex_;
  std::optional<T> value_;
  std::atomic<const T*> made_ = nullptr;
};

}  // namespace cohort::internal
