#include "checkpoint/tensor_extent.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace cohort::internal {

std::string Extent::to_string() const {
  std::vector<std::string> ranges;
  for (int i = 0; i < shape.rank(); ++i) {
    const int64_t begin = offset[static_cast<size_t>(i)];
    ranges.push_back(fmt::format("{}:{}", begin, begin + shape[i]));
  }
  return fmt::format("[{}]", fmt::join(ranges, ", "));
}

Extent whole_of(const Shape& shape) {
  return {std::vector<int64_t>(static_cast<size_t>(shape.rank()), 0), shape};
}

bool lies_in(const Extent& extent, const Shape& shape) {
  if (extent.shape.rank() != shape.rank() ||
      extent.offset.size() != static_cast<size_t>(shape.rank())) {
    return false;
  }
  for (int i = 0; i < shape.rank(); ++i) {
    const int64_t begin = extent.offset[static_cast<size_t>(i)];
    if (begin < 0 || extent.shape[i] < 0 || begin > shape[i] - extent.shape[i]) return false;
  }
  return true;
}

bool overlap(const Extent& a, const Extent& b) {
  for (int i = 0; i < a.shape.rank(); ++i) {
    const int64_t a_begin = a.offset[static_cast<size_t>(i)];
    const int64_t b_begin = b.offset[static_cast<size_t>(i)];
    if (std::max(a_begin, b_begin) >= std::min(a_begin + a.shape[i], b_begin + b.shape[i])) {
      return false;
    }
  }
  return true;
}

bool tile(std::span<const Extent> extents, const Shape& shape) {
  int64_t elements = 0;
  for (size_t i = 0; i < extents.size(); ++i) {
    elements += extents[i].shape.num_elements();
    for (size_t k = 0; k < i; ++k) {
      if (overlap(extents[i], extents[k])) return false;
    }
  }
  return elements == shape.num_elements();
}

namespace {

// Whether the extents agree in all dimensions after `axis`, so that an overlap lies in one piece.
bool is_same_after(int axis, const Extent& a, const Extent& b) {
  for (int i = axis + 1; i < a.shape.rank(); ++i) {
    const auto at = static_cast<size_t>(i);
    if (a.offset[at] != b.offset[at] || a.shape[i] != b.shape[i]) return false;
  }
  return true;
}

// Copies dimensions `axis` and after it, of which both boxes have something. `from_bytes` and
// `to_bytes` are what these dimensions span in each box.
void copy_from_axis(const Box<const std::byte>& from, const Box<std::byte>& to, int axis,
                    size_t from_bytes, size_t to_bytes) {
  const auto at = static_cast<size_t>(axis);
  const int64_t from_begin = from.extent.offset[at];
  const int64_t to_begin = to.extent.offset[at];
  const int64_t begin = std::max(from_begin, to_begin);
  const int64_t end =
      std::min(from_begin + from.extent.shape[axis], to_begin + to.extent.shape[axis]);
  from_bytes /= static_cast<size_t>(from.extent.shape[axis]);
  to_bytes /= static_cast<size_t>(to.extent.shape[axis]);
  const std::byte* source = from.data + static_cast<size_t>(begin - from_begin) * from_bytes;
  std::byte* target = to.data + static_cast<size_t>(begin - to_begin) * to_bytes;
  if (is_same_after(axis, from.extent, to.extent)) {
    std::memcpy(target, source, static_cast<size_t>(end - begin) * from_bytes);
    return;
  }
  for (int64_t i = begin; i < end; ++i, source += from_bytes, target += to_bytes) {
    copy_from_axis({from.extent, source}, {to.extent, target}, axis + 1, from_bytes, to_bytes);
  }
}

}  // namespace

void copy_overlap(const Box<const std::byte>& from, const Box<std::byte>& to, size_t bytes_each) {
  const int64_t from_elements = from.extent.shape.num_elements();
  const int64_t to_elements = to.extent.shape.num_elements();
  if (from_elements == 0 || to_elements == 0 || !overlap(from.extent, to.extent)) return;
  if (from.extent.shape.rank() == 0) {
    std::memcpy(to.data, from.data, bytes_each);
    return;
  }
  copy_from_axis(from, to, 0, static_cast<size_t>(from_elements) * bytes_each,
                 static_cast<size_t>(to_elements) * bytes_each);
}

}  // namespace cohort::internal
