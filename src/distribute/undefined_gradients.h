#pragma once

#include <vector>

#include "cohort/values.h"

namespace cohort::internal {

// Makes the parts that are undefined zeros, as the others are dense or sparse: they add nothing.
// Returns false when all are undefined, so that there is nothing to reduce. Reductions that do not
// add leave them as they are.
bool fill_undefined(ReduceOp op, std::vector<Gradient>& parts);

}  // namespace cohort::internal
