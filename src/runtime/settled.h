#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "cohort/tensor.h"

namespace cohort::internal {

// What the settled steps of a plan (see Plan) made on one device, for the runs that follow: looking
// state up by name in every run costs more than using it. Thread-safe.
class SettledValues {
 public:
  // `clears`: how often state on the device was forgotten; what was kept before that is not used.
  // It must outlive this. Null: that never happens.
  explicit SettledValues(const std::atomic<uint64_t>* clears = nullptr) : clears_(clears) {}

  struct Kept {
    uint64_t clears = 0;                                     // when it was asked for
    std::shared_ptr<const std::vector<Tensor>> values = {};  // null: the run is to make them
  };
  Kept get() const {
    const uint64_t clears = clears_ == nullptr ? 0 : clears_->load();
    const std::lock_guard lock(mutex_);
    return kept_.clears == clears ? kept_ : Kept{clears, nullptr};
  }
  // `values` were made by a run that asked at `clears`.
  void put(uint64_t clears, std::vector<Tensor> values) {
    auto kept = std::make_shared<const std::vector<Tensor>>(std::move(values));
    const std::lock_guard lock(mutex_);
    kept_ = {clears, std::move(kept)};
  }

 private:
  const std::atomic<uint64_t>* const clears_;
  mutable std::mutex mutex_;
  Kept kept_;  // guarded by mutex_
};

}  // namespace cohort::internal
