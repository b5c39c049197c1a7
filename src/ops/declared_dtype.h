#pragma once

#include "ops/variable_cell.h"

namespace cohort::internal {

// State may be shared with a graph that declares it differently. Another shape is taken as it is;
// throws InvalidArgument, naming the variable, for another dtype than the op's graph declares.
void check_declared(const VariableCell& cell, const Tensor& stored, DType declared);

}  // namespace cohort::internal
