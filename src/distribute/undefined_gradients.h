#pragma once

#include <string>
#include <vector>

#include "cohort/values.h"

namespace cohort::internal {

// Makes the parts that are undefined zeros, as the others are dense or sparse: they add nothing.
// Returns false when all are undefined, so that there is nothing to reduce. Reductions that do not
// add leave them as they are.
bool fill_undefined(ReduceOp op, std::vector<Gradient>& parts);

// Zeros as the other is: of its shape, or no rows.
Gradient zero_like(const Gradient& other);
// Zeros like another worker's gradient, of which this one only knows that.
Gradient zero_gradient(DType dtype, const Shape& shape, bool has_rows);

// Which values there are, for members that cannot make up for a difference to compare: "all_reduce
// of 3 values, none for number 0, rows for number 2". All dense: "all_reduce".
std::string describe_presence(const std::vector<Gradient>& values);
// The same with the names of the variables that they are the gradients of: "the gradients of 3
// variables [5f3a01], none for 'a'". What is in brackets stands for the list.
std::string describe_presence(const std::vector<Gradient>& gradients,
                              const std::vector<Variable>& variables);

}  // namespace cohort::internal
