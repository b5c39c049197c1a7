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

// Copies dimension by dimension, the first one being the slowest; what lies in one piece in both
// boxes goes at once.
class OverlapCopy {
 public:
  OverlapCopy(const Box<const std::byte>& from, const Box<std::byte>& to, size_t bytes_each)
      : from_(from), to_(to), rank_(from.extent.shape.rank()) {
    from_stride_.resize(static_cast<size_t>(rank_) + 1, bytes_each);
    to_stride_ = from_stride_;
    in_one_piece_.resize(static_cast<size_t>(rank_) + 1, true);
    for (int i = rank_ - 1; i >= 0; --i) {
      const auto at = static_cast<size_t>(i);
      from_stride_[at] = from_stride_[at + 1] * static_cast<size_t>(from.extent.shape[i]);
      to_stride_[at] = to_stride_[at + 1] * static_cast<size_t>(to.extent.shape[i]);
      in_one_piece_[at] = in_one_piece_[at + 1] && begin(i) == from.extent.offset[at] &&
                          begin(i) == to.extent.offset[at] && count(i) == from.extent.shape[i] &&
                          count(i) == to.extent.shape[i];
    }
  }

  void go() const { copy(0, from_.data, to_.data); }

 private:
  int64_t begin(int i) const {
    const auto at = static_cast<size_t>(i);
    return std::max(from_.extent.offset[at], to_.extent.offset[at]);
  }
  int64_t count(int i) const {
    const auto at = static_cast<size_t>(i);
    return std::min(from_.extent.offset[at] + from_.extent.shape[i],
                    to_.extent.offset[at] + to_.extent.shape[i]) -
           begin(i);
  }

  void copy(int i, const std::byte* from, std::byte* to) const {
    if (i == rank_) {
      std::memcpy(to, from, from_stride_.back());
      return;
    }
    const auto at = static_cast<size_t>(i);
    from += static_cast<size_t>(begin(i) - from_.extent.offset[at]) * from_stride_[at + 1];
    to += static_cast<size_t>(begin(i) - to_.extent.offset[at]) * to_stride_[at + 1];
    if (in_one_piece_[at + 1]) {
      std::memcpy(to, from, static_cast<size_t>(count(i)) * from_stride_[at + 1]);
      return;
    }
    for (int64_t k = 0; k < count(i); ++k) {
      copy(i + 1, from + static_cast<size_t>(k) * from_stride_[at + 1],
           to + static_cast<size_t>(k) * to_stride_[at + 1]);
    }
  }

  const Box<const std::byte>& from_;
  const Box<std::byte>& to_;
  const int rank_;
  std::vector<size_t> from_stride_;  // bytes of what dimensions i and after it span
  std::vector<size_t> to_stride_;
  std::vector<bool> in_one_piece_;  // dimensions i and after it are whole in both
};

}  // namespace

void copy_overlap(const Box<const std::byte>& from, const Box<std::byte>& to, size_t bytes_each) {
  const bool empty = from.extent.shape.num_elements() == 0 || to.extent.shape.num_elements() == 0;
  if (!empty && overlap(from.extent, to.extent)) OverlapCopy(from, to, bytes_each).go();
}

}  // namespace cohort::internal
