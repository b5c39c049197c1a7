#pragma once

#include <map>
#include <string>
#include <vector>

#include "cohort/tensor.h"

namespace cohort::internal {

// Fetches by name: `run(tensors)` gets them as a list, its results have the names again.
template <typename Run>
std::map<std::string, Tensor> run_by_name(const std::map<std::string, Tensor>& fetches,
                                          const Run& run) {
  std::vector<Tensor> tensors;
  for (const auto& [name, fetch] : fetches) tensors.push_back(fetch);
  const std::vector<Tensor> values = run(tensors);
  std::map<std::string, Tensor> results;
  size_t next = 0;
  for (const auto& [name, fetch] : fetches) results[name] = values[next++];
  return results;
}

}  // namespace cohort::internal
