#pragma once

#include "cohort/tensor.h"
#include "tensor/devices.h"

namespace cohort::internal {

// The same elements as a value of `device`. Logical CPU devices share memory, so nothing is copied
// but strings. Resources stay where they are; symbols throw FailedPrecondition.
Tensor on_device(const Tensor& tensor, const Device& device);

}  // namespace cohort::internal
