#pragma once

#include <ATen/core/Tensor.h>

namespace cohort::internal {

// The first `keep` values of every row of the last dimension once each row is sorted, and where in
// the row they were. Equal values keep their order; NaN comes after everything else, whichever way
// the rest is sorted.
struct Ordered {
  at::Tensor values;
  at::Tensor indices;
};
Ordered order_rows(const at::Tensor& x, int64_t keep, bool descending);

}  // namespace cohort::internal
