#pragma once

// Converts between tensors and LibTorch's. Users include cohort/torch.h instead.

#include <torch/torch.h>

#include "cohort/tensor.h"

namespace cohort {

namespace internal {
at::Tensor to_torch(const Tensor& tensor);
Tensor from_torch(const at::Tensor& tensor);
}  // namespace internal

inline Tensor::operator at::Tensor() const { return internal::to_torch(*this); }

template <std::same_as<at::Tensor> T>
Tensor::Tensor(const T& tensor) : Tensor(internal::from_torch(tensor)) {}

}  // namespace cohort
