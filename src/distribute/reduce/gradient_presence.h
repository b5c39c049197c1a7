#pragma once

#include <string>
#include <vector>

#include "cohort/collective.h"
#include "cohort/cross_device_ops.h"

// Gradients that some replicas or workers do not have, or have as rows.
namespace cohort::internal {

// Replaces undefined parts by zeros, dense or sparse as the other parts are: zeros add nothing.
// Returns false when all parts are undefined, so that nothing is left to reduce. Reductions other
// than Sum and Mean leave the parts as they are.
bool fill_undefined(ReduceOp op, std::vector<Gradient>& parts);

// The same for workers: all call it with as many values. `lacks` says of each value whether only
// some replicas of this worker have it. If the workers differ, Sum takes a missing value as zeros,
// and dense values as rows; other reductions throw InvalidArgument on all workers.
std::vector<Gradient> fill_from_workers(Communicator& workers, ReduceOp op,
                                        std::vector<Gradient> values,
                                        const std::vector<bool>& lacks,
                                        const CommunicationOptions& options);

// Zeros in the form of `other`: a dense tensor of its shape, or rows without any row.
Gradient zero_like(const Gradient& other);
// Zeros for a gradient of which only another worker knows the form: dense, or rows without any row.
Gradient zero_gradient(DType dtype, const Shape& shape, bool has_rows);

// Which values are defined, and which are rows. Members that cannot make up for a difference
// compare this text: "all_reduce of 3 values, none for number 0, rows for number 2". If all values
// are dense it is "all_reduce".
std::string describe_presence(const std::vector<Gradient>& values);
// The same for the gradients of variables, with their names: "the gradients of 3 variables
// [5f3a01], none for 'a'". The number in brackets stands for the list of variables.
std::string describe_presence(const std::vector<Gradient>& gradients,
                              const std::vector<Variable>& variables);

}  // namespace cohort::internal
