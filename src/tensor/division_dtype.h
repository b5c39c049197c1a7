#pragma once

#include "cohort/dtype.h"

namespace cohort::internal {

// The dtype in which integers of this dtype divide; a floating dtype itself.
inline DType division_dtype(DType dtype) {
  if (is_floating(dtype)) return dtype;
  return size_of(dtype) <= 2 ? kFloat32 : kFloat64;
}

}  // namespace cohort::internal
