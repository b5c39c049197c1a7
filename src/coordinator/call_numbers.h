#pragma once

#include <cstdint>
#include <set>

namespace cohort::internal {

// Numbers of calls, in the order of their beginning, and which calls are not over.
class CallNumbers {
 public:
  // Of one call, or the first of several that end together.
  int64_t begin(int64_t calls = 1) {
    const int64_t first = next_;
    next_ += calls;
    open_.insert(open_.end(), first);
    return first;
  }
  void end(int64_t number) { open_.erase(number); }
  // All calls with smaller numbers are over.
  int64_t all_done_below() const { return open_.empty() ? next_ : *open_.begin(); }

 private:
  int64_t next_ = 1;
  std::set<int64_t> open_;
};

}  // namespace cohort::internal
