#pragma once

#include <algorithm>
#include <cstdint>

namespace cohort::internal {

// Rows cut into parts of consecutive rows: n div k rows each, the first n mod k parts one more.
class DivSharding {
 public:
  // At most as many parts as rows, and at least one. Throws InvalidArgument when `rows` is negative
  // or `parts` below one.
  DivSharding(int64_t rows, int64_t parts);

  int64_t parts() const { return parts_; }
  int64_t size(int64_t part) const { return base_ + (part < longer_ ? 1 : 0); }
  // The first row of a part.
  int64_t begin(int64_t part) const { return part * base_ + std::min(part, longer_); }

 private:
  int64_t parts_;
  int64_t base_;    // rows of the shorter parts
  int64_t longer_;  // number of parts with one more
};

}  // namespace cohort::internal
