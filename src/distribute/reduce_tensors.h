#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/values.h"

// What the algorithms between devices are made of. On symbols they add nodes.
namespace cohort::internal {

// `tensor` on that device.
Tensor on_device(const Tensor& tensor, const std::string& device);
// `tensor` on each of them.
std::vector<Tensor> on_devices(const Tensor& tensor, std::span<const std::string> devices);

// Sum, Min, Max or Product of tensors of one dtype and shape, from the first to the last, on the
// current device. `threads` at most work on it.
Tensor reduce_tensors(ReduceOp op, std::span<const Tensor> tensors, size_t threads = 1);

// "float32 (2, 3)", or "rows of float32 (2, 3)".
std::string describe(const Gradient& value);

}  // namespace cohort::internal
