#pragma once

#include <span>
#include <string>
#include <vector>

#include "cohort/values.h"

// What the algorithms between devices are made of. On symbols they add nodes.
namespace cohort::internal {

// `tensor` on that device.
Tensor on_device(const Tensor& tensor, const std::string& device);
// `tensor` on each of these devices.
std::vector<Tensor> on_devices(const Tensor& tensor, std::span<const std::string> devices);

// Sum, Min, Max or Product of tensors of one dtype and shape, from the first to the last, on the
// current device. `threads` at most work on it.
Tensor reduce_tensors(ReduceOp op, std::span<const Tensor> tensors, size_t threads = 1);

// "float32 (2, 3)", or "rows of float32 (2, 3)".
std::string describe(const Gradient& value);

// Whether one of the parts is rows, so that the others become rows too.
bool any_sparse(std::span<const Gradient> parts);

// The rows of all parts, one after the other, on the current device. At least one part must be
// sparse; a dense part counts as all of its rows. The result is the sum of the parts, because rows
// with the same index add up. Mean divides every row by the number of parts.
IndexedSlices join_slices(ReduceOp op, std::span<const Gradient> parts);

// Replaces undefined parts by zeros, dense or sparse as the other parts are: zeros add nothing.
// Returns false when all parts are undefined, so that nothing is left to reduce. Reductions other
// than Sum and Mean leave the parts as they are.
bool fill_undefined(ReduceOp op, std::vector<Gradient>& parts);

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
