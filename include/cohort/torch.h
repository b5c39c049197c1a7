#pragma once

// Cohort and LibTorch in one program. Include this first, before `using namespace cohort`: torch's
// headers have names (Tensor, data) that would clash with it.

#include <torch/torch.h>  // IWYU pragma: export

#include "cohort/cohort.h"  // IWYU pragma: export

namespace cohort {

namespace internal {
at::Tensor to_torch(const Tensor& tensor);
Tensor from_torch(const at::Tensor& tensor);
}  // namespace internal

// The same memory, and torch's autograd history if the tensor came from torch. Throws on symbolic
// and string tensors. Treat the result as read-only: other tensors may share it.
inline Tensor::operator at::Tensor() const { return internal::to_torch(*this); }

// Shares memory with `tensor`, which must not be written to afterwards.
template <std::same_as<at::Tensor> T>
Tensor::Tensor(const T& tensor) : Tensor(internal::from_torch(tensor)) {}

}  // namespace cohort

#include "cohort/torch_module.h"     // IWYU pragma: export
#include "cohort/torch_optimizer.h"  // IWYU pragma: export
