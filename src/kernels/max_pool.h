#pragma once

#include <array>
#include <cstdint>

namespace cohort::internal {

// How max_pool goes over planes that lie one after the other.
struct PoolPlan {
  using Sides = std::array<int64_t, 2>;

  Sides size;
  Sides stride;
  Sides before;  // padding above and to the left
  Sides plane;   // height and width
  Sides output;
  int64_t row_length;  // of the plane that the indices count in, which may be wider
};

// For each window its largest element, NaN being larger than all others, and where in its plane
// that is: of equals the first, of NaNs the last. Padding is never chosen. Every window covers an
// element. Of float and double.
template <typename T>
void max_pool(const PoolPlan& plan, int64_t planes, const T* x, T* values, int64_t* indices);

// The gradient of max_pool, in planes that lie one after the other.
template <typename T>
struct PoolGradient {
  const T* g;
  const int64_t* indices;  // of the elements of g: for each its place in a plane of x
  int64_t pooled;          // elements of a plane of g
  T* x;
  int64_t plane;  // elements of a plane of x
};

// Sets planes `begin` to `end` of x to the sums of the elements of g that belong there. Returns
// false, with some planes not set, if an index is outside of its plane. Of float and double.
template <typename T>
bool max_pool_gradient(const PoolGradient<T>& of, int64_t begin, int64_t end);

}  // namespace cohort::internal
