#pragma once

#include "cohort/tensor.h"

namespace cohort::internal {

inline std::vector<Tensor> at_positions(std::span<const Tensor> values,
                                        const std::vector<size_t>& positions) {
  std::vector<Tensor> chosen;
  chosen.reserve(positions.size());
  for (const size_t position : positions) chosen.push_back(values[position]);
  return chosen;
}

// The tensors of all parts, in order.
inline std::vector<Tensor> joined(std::initializer_list<std::span<const Tensor>> parts) {
  std::vector<Tensor> all;
  for (const auto part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace cohort::internal
