#pragma once

#include <cstddef>
#include <memory>

#include "cohort/tensor.h"

namespace cohort::internal {

// Memory that `owner`, which is not null, keeps alive and nobody writes. It holds the elements in
// row-major order, aligned to their size. Cheap: the kernel library learns of it when it is used.
Tensor borrow_memory(const std::byte* data, DType dtype, const Shape& shape,
                     std::shared_ptr<const void> owner);

// Another numeric tensor of the same memory, which belongs to the current device.
Tensor share_memory(const Tensor& tensor);

// The tensor, for who keeps it as a constant: a copy where somebody else holds its memory, who may
// be a torch program that writes to it.
Tensor constant_of(const Tensor& tensor);

}  // namespace cohort::internal
