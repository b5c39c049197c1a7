#pragma once

#include "base/thread_context.h"

namespace cohort::internal {

// While it lives, this thread reads variables row by row, so caches are neither asked nor filled: a
// cache would hold the whole table.
class [[nodiscard]] RowReads : ContextValue<bool> {
 public:
  RowReads() : ContextValue(reading_, true) {}
  static bool active() { return reading_.get(); }

 private:
  static inline constinit ContextSlot<bool> reading_;
};

}  // namespace cohort::internal
