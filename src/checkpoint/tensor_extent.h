#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "cohort/shape.h"

namespace cohort::internal {

// A box inside a tensor: its offset and its sizes.
struct Extent {
  std::vector<int64_t> offset;
  Shape shape;

  // "[0:3, 2:4]"
  std::string to_string() const;
  friend bool operator==(const Extent&, const Extent&) = default;
};

Extent whole_of(const Shape& shape);
// Whether the extent lies inside a tensor of that shape. Both must be fully known.
bool lies_in(const Extent& extent, const Shape& shape);
bool overlap(const Extent& a, const Extent& b);

// Whether the extents, each of which lies in `shape`, cover it without overlapping.
bool tile(std::span<const Extent> extents, const Shape& shape);

// Row-major elements of `bytes_each` that fill an extent.
template <typename Byte>
struct Box {
  const Extent& extent;
  Byte* data;
};
// Copies the elements that are in both boxes.
void copy_overlap(const Box<const std::byte>& from, const Box<std::byte>& to, size_t bytes_each);

}  // namespace cohort::internal
