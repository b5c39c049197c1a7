#pragma once

#include <atomic>
#include <cstdint>

namespace cohort::data {
class Dataset;
}

namespace cohort::data::internal {

// How many passes strategies began over datasets that a stage is part of. Iterators of this process
// alone do not count, because other workers do not know of them. Part of the stage; a copy of the
// stage starts anew.
class PassCount {
 public:
  PassCount() = default;
  PassCount(const PassCount&) {}
  int64_t next() const { return next_.load(std::memory_order_relaxed); }
  void set_next(int64_t number) const { next_.store(number, std::memory_order_relaxed); }
  void raise_next(int64_t least) const {
    int64_t now = next();
    while (now < least && !next_.compare_exchange_weak(now, least, std::memory_order_relaxed)) {
    }
  }

 private:
  mutable std::atomic<int64_t> next_ = 0;
};

// The number of the next pass over the dataset: no stage of it has had a pass of that number or a
// higher one. Passes of other datasets that share a stage, say the shuffle below two batch()
// stages, count too.
int64_t next_pass(const Dataset& dataset);
// Says which number comes next, for the dataset's stages.
void set_next_pass(const Dataset& dataset, int64_t number);
// Says that a lower number does not come any more.
void raise_next_pass(const Dataset& dataset, int64_t least);

}  // namespace cohort::data::internal
