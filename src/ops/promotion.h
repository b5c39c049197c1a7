#pragma once

#include <string_view>

#include "cohort/tensor.h"
#include "kernels/dtypes.h"  // IWYU pragma: export

namespace cohort::internal {

// Both in the dtype in which they meet. A C++ number adopts the other's dtype; one that is floating
// makes an integer tensor float32.
struct Pair {
  Tensor a;
  Tensor b;
};
Pair promoted(std::string_view op, const Tensor& a, const Tensor& b);

}  // namespace cohort::internal
