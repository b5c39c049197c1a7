#pragma once

#include <cstdint>
#include <functional>

namespace cohort::internal {

// Part `part` of `parts` equal ones of the elements 0 to `count`. Borders lie between cache lines,
// whatever the size of an element.
struct ElementRange {
  int64_t begin;
  int64_t end;
};
ElementRange slice_of(int64_t count, size_t part, size_t parts);

// Calls `body` for each of `parts` slices of 0 to `count`, at the same time, this thread doing one.
// `body` must not throw.
void for_each_slice(int64_t count, size_t parts, const std::function<void(ElementRange)>& body);

}  // namespace cohort::internal
