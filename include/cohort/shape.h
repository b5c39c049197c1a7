#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <span>
#include <string>
#include <vector>

namespace cohort {

// The sizes of a tensor's dimensions. In a graph a size may be unknown (kUnknownDim), or even the
// number of dimensions (Shape::unknown()); a tensor that holds values has a fully known shape.
// A plain value: cheap to copy, never allocates, at most kMaxRank dimensions.
class Shape {
 public:
  static constexpr int kMaxRank = 8;
  static constexpr int64_t kUnknownDim = -1;

  Shape() = default;  // a scalar's: ()
  // Throws InvalidArgument for a size below -1 or more than kMaxRank sizes.
  Shape(std::initializer_list<int64_t> sizes);
  Shape(const std::vector<int64_t>& sizes);
  explicit Shape(std::span<const int64_t> sizes);

  static Shape unknown();

  bool has_rank() const { return rank_ >= 0; }
  // Number of dimensions; -1 for Shape::unknown().
  int rank() const { return rank_; }
  // Size of dimension `axis`; a negative axis counts from the end. Throws InvalidArgument.
  int64_t operator[](int axis) const;
  bool is_fully_known() const;
  // Product of all sizes, 1 for a scalar. Throws InvalidArgument when a size is unknown or the
  // product does not fit into int64.
  int64_t num_elements() const;

  const int64_t* begin() const { return sizes_.data(); }
  const int64_t* end() const { return sizes_.data() + (rank_ < 0 ? 0 : rank_); }
  const int64_t& front() const { return sizes_.front(); }
  std::vector<int64_t> to_vector() const { return {begin(), end()}; }

  // Copies with one thing changed. `axis` as in operator[].
  Shape with(int axis, int64_t size) const;
  Shape without(int axis) const;
  Shape with_inserted(int axis, int64_t size) const;
  void push_back(int64_t size);

  // Whether some fully known shape agrees with both.
  bool is_compatible_with(const Shape& other) const;
  // What both together say. Throws InvalidArgument when they are not compatible.
  Shape merged_with(const Shape& other) const;

  // "(2, 3)", "(4,)", "()", "(None, 3)", "<unknown>".
  std::string to_string() const;
  friend bool operator==(const Shape& a, const Shape& b);
  friend std::ostream& operator<<(std::ostream& out, const Shape& shape);

 private:
  std::array<int64_t, kMaxRank> sizes_{};
  int8_t rank_ = 0;
};

}  // namespace cohort
