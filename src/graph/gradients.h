#pragma once

#include <span>
#include <vector>

#include "cohort/gradient.h"
#include "graph/graph_impl.h"

namespace cohort::internal {

// Where the gradient of a variable comes together: at every read of it that the graph has so far,
// and at its handle, which functions take that read it themselves.
std::vector<Tensor> sources_of(const std::vector<OpCall>& calls, const Tensor& handle);

// d(ys)/d(group) for each group of tensors, the sum over its members, given d(result)/d(y) in
// `seeds`: as new nodes of the graph whose calls these are. Undefined where no y depends on it.
Gradients group_gradients(std::vector<OpCall> calls, std::span<const Tensor> ys,
                          std::span<const Tensor> seeds,
                          const std::vector<std::vector<Tensor>>& groups);

}  // namespace cohort::internal
