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

}  // namespace cohort::internal
