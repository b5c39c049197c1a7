#pragma once

#include <span>

#include "cohort/values.h"

namespace cohort::internal {

// Whether one of the parts is rows, so that the others become rows too.
bool any_sparse(std::span<const Gradient> parts);

// The rows of all parts, of which at least one is sparse, one after the other, on the current
// device. That is their sum, because rows that come several times add up. A dense part counts as
// all of its rows. Mean divides every row by the number of parts.
IndexedSlices join_slices(ReduceOp op, std::span<const Gradient> parts);

}  // namespace cohort::internal
