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

}  // namespace cohort::internal
