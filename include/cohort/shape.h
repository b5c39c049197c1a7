#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <span>
#include <string>
#include <vector>

namespace cohort {

// Shape holds the sizes of a tensor's dimensions. In a graph a size may be unknown (kUnknownDim),
// or even the number of dimensions (Shape::unknown()). The shape of a tensor with values is fully
// known. A Shape has at most kMaxRank dimensions. Copies are cheap and never allocate.
//
//   Shape images{32, 3, 28, 28};
//   int64_t batch = images[0];             // 32
//   Shape any_batch = images.with(0, -1);  // (None, 3, 28, 28)
class Shape {
 public:
  static constexpr int kMaxRank = 8;
  static constexpr int64_t kUnknownDim = -1;

  Shape() = default;  // a scalar's: ()
  // Throws InvalidArgument if a size is below -1 or if there are more than kMaxRank sizes.
  Shape(std::initializer_list<int64_t> sizes);
  Shape(const std::vector<int64_t>& sizes);
  explicit Shape(std::span<const int64_t> sizes);

  static Shape unknown();

  bool has_rank() const { return rank_ >= 0; }
  // The number of dimensions; -1 for Shape::unknown().
  int rank() const { return rank_; }
  // Returns the size of dimension `axis`; a negative axis counts from the end. Throws
  // InvalidArgument if the dimension does not exist.
  int64_t operator[](int axis) const;
  bool is_fully_known() const;
  // Returns the product of all sizes, 1 for a scalar. Throws InvalidArgument if a size is unknown
  // or the product does not fit into int64.
  int64_t num_elements() const;

  const int64_t* begin() const { return sizes_.data(); }
  const int64_t* end() const { return sizes_.data() + (rank_ < 0 ? 0 : rank_); }
  const int64_t& front() const { return sizes_.front(); }
  std::vector<int64_t> to_vector() const { return {begin(), end()}; }

  // Return a copy with one change. `axis` counts as in operator[].
  Shape with(int axis, int64_t size) const;
  Shape without(int axis) const;
  Shape with_inserted(int axis, int64_t size) const;
  void push_back(int64_t size);

  // Returns whether a fully known shape exists that agrees with both shapes.
  bool is_compatible_with(const Shape& other) const;
  // Returns a shape with the known sizes of both. Throws InvalidArgument if they are incompatible.
  Shape merged_with(const Shape& other) const;

  // Returns "(2, 3)", "(4,)", "()", "(None, 3)" or "<unknown>".
  std::string to_string() const;
  friend bool operator==(const Shape& a, const Shape& b);
  friend std::ostream& operator<<(std::ostream& out, const Shape& shape);

 private:
  std::array<int64_t, kMaxRank> sizes_{};
  int8_t rank_ = 0;
};

}  // namespace cohort
