#pragma once

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <cstdint>
#include <memory>

namespace cohort::testing {

// Counts what this thread takes from and gives back to the kernel library's memory, while it lives.
class AllocationMeter {
 public:
  AllocationMeter() : guard_(c10::DebugInfoKind::PROFILER_STATE, counts_) {}

  int64_t allocations() const { return counts_->allocations; }
  int64_t live_bytes() const { return counts_->live; }
  int64_t peak_bytes() const { return counts_->peak; }
  // Begins a new search for the peak.
  void reset_peak() { counts_->peak = counts_->live; }

 private:
  struct Counts : c10::MemoryReportingInfoBase {
    // The first overrides in LibTorch 1.13, the second in 2.15.
    void reportMemoryUsage(void* /*memory*/, int64_t bytes, int64_t /*allocated*/,
                           int64_t /*reserved*/, c10::Device /*device*/) {
      count(bytes);
    }
    void reportMemoryUsage(void* /*memory*/, int64_t bytes, size_t /*allocated*/,
                           size_t /*reserved*/, c10::Device /*device*/) {
      count(bytes);
    }
    void count(int64_t bytes) {
      allocations += bytes > 0 ? 1 : 0;
      live += bytes;
      peak = std::max(peak, live);
    }
    bool memoryProfilingEnabled() const override { return true; }

    int64_t allocations = 0;
    int64_t live = 0;
    int64_t peak = 0;
  };

  const std::shared_ptr<Counts> counts_ = std::make_shared<Counts>();
  const c10::DebugInfoGuard guard_;
};

}  // namespace cohort::testing
