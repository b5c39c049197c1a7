#pragma once

#include <cohort/torch.h>

#include <vector>

namespace cohort::test {

using Floats = std::vector<float>;

// The elements in row-major order.
inline Floats floats(const torch::Tensor& tensor) {
  return Tensor(tensor.detach().to(torch::kFloat32).reshape({-1})).to_vector<float>();
}

}  // namespace cohort::test
