#pragma once

#include <algorithm>
#include <cstdint>

namespace cohort::internal {

// Elements that one of several members reduces.
struct Slice {
  int64_t begin;
  int64_t end;
};

// Slice `part` of `parts` about equal ones of `count` elements. No two members write into one cache
// line, whatever the size of an element.
inline Slice slice_of(int64_t count, int part, int parts) {
  constexpr int64_t kLine = 64;
  const int64_t each = (count / parts + kLine - 1) / kLine * kLine;
  return {std::min(count, each * part),
          part == parts - 1 ? count : std::min(count, each * (part + 1))};
}

}  // namespace cohort::internal
