#include "cohort/shape.h"

#include <algorithm>
#include <ostream>

#include "base/raise.h"

namespace cohort {

using internal::raise;

Shape::Shape(std::initializer_list<int64_t> sizes)
    : Shape(std::span<const int64_t>(sizes.begin(), sizes.size())) {}

Shape::Shape(const std::vector<int64_t>& sizes) : Shape(std::span<const int64_t>(sizes)) {}

Shape::Shape(std::span<const int64_t> sizes) {
  if (sizes.size() > kMaxRank) {
    raise(Code::InvalidArgument, "[Shape] a tensor has at most {} dimensions, got {}", kMaxRank,
          sizes.size());
  }
  for (const int64_t size : sizes) push_back(size);
}

Shape Shape::unknown() {
  Shape shape;
  shape.rank_ = -1;
  return shape;
}

namespace {

int64_t checked_size(int64_t size) {
  if (size < Shape::kUnknownDim) {
    raise(Code::InvalidArgument,
          "[Shape] a dimension has size {}; sizes are 0 or more, or -1 for unknown", size);
  }
  return size;
}

int checked_axis(int axis, int rank, const Shape& shape) {
  const int positive = axis < 0 ? axis + rank : axis;
  if (positive < 0 || positive >= rank) {
    raise(Code::InvalidArgument, "[Shape] axis {} is outside of shape {}", axis, shape.to_string());
  }
  return positive;
}

}  // namespace

void Shape::push_back(int64_t size) {
  checked_size(size);
  if (rank_ == kMaxRank) {
    raise(Code::InvalidArgument, "[Shape] a tensor has at most {} dimensions, got {}", kMaxRank,
          kMaxRank + 1);
  }
  if (rank_ >= 0) sizes_[rank_++] = size;
}

int64_t Shape::operator[](int axis) const { return sizes_[checked_axis(axis, rank_, *this)]; }

bool Shape::is_fully_known() const {
  return has_rank() && std::all_of(begin(), end(), [](int64_t size) { return size >= 0; });
}

int64_t Shape::num_elements() const {
  if (!is_fully_known()) {
    raise(Code::InvalidArgument, "[Shape] {} has unknown sizes, so its element count is unknown",
          to_string());
  }
  if (std::find(begin(), end(), 0) != end()) return 0;
  int64_t product = 1;
  for (const int64_t size : *this) {
    if (__builtin_mul_overflow(product, size, &product)) {
      raise(Code::InvalidArgument, "[Shape] {} has more elements than fit into 64 bits",
            to_string());
    }
  }
  return product;
}

Shape Shape::with(int axis, int64_t size) const {
  Shape copy = *this;
  copy.sizes_[checked_axis(axis, rank_, *this)] = checked_size(size);
  return copy;
}

Shape Shape::without(int axis) const {
  const int skipped = checked_axis(axis, rank_, *this);
  Shape copy;
  for (int i = 0; i < rank_; ++i) {
    if (i != skipped) copy.push_back(sizes_[i]);
  }
  return copy;
}

Shape Shape::with_inserted(int axis, int64_t size) const {
  const int position = checked_axis(axis, rank_ + 1, *this);
  Shape copy;
  for (int i = 0; i <= rank_; ++i) {
    if (i == position) copy.push_back(size);
    if (i < rank_) copy.push_back(sizes_[i]);
  }
  return copy;
}

bool Shape::is_compatible_with(const Shape& other) const {
  if (!has_rank() || !other.has_rank()) return true;
  return std::equal(begin(), end(), other.begin(), other.end(),
                    [](int64_t a, int64_t b) { return a == b || a < 0 || b < 0; });
}

Shape Shape::merged_with(const Shape& other) const {
  if (!is_compatible_with(other)) {
    raise(Code::InvalidArgument, "[Shape] {} and {} are not compatible", to_string(),
          other.to_string());
  }
  if (!has_rank()) return other;
  Shape merged = *this;
  if (other.has_rank()) {
    for (int i = 0; i < rank_; ++i) merged.sizes_[i] = std::max(sizes_[i], other.sizes_[i]);
  }
  return merged;
}

std::string Shape::to_string() const {
  if (!has_rank()) return "<unknown>";
  std::string text = "(";
  for (int i = 0; i < rank_; ++i) {
    if (i > 0) text += ", ";
    text += sizes_[i] < 0 ? "None" : std::to_string(sizes_[i]);
  }
  return text + (rank_ == 1 ? ",)" : ")");
}

bool operator==(const Shape& a, const Shape& b) {
  return a.rank_ == b.rank_ && std::equal(a.begin(), a.end(), b.begin());
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << shape.to_string(); }

}  // namespace cohort
