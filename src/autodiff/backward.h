#pragma once

#include <functional>
#include <span>
#include <vector>

#include "cohort/gradient.h"
#include "ops/op.h"

namespace cohort::internal {

// d(targets)/d(group) for each group of sources, the sum over its members, given
// d(result)/d(target) in `seeds`. This is the only reverse walk. `calls` lists the op calls in
// order; both a tape and a graph are such a list. On concrete values the walk computes, on symbolic
// values it adds nodes, because the gradients of ops call public ops.
//
// Only calls between the sources and the targets are visited. Each is dropped once it has been
// used, so that the memory it held is free again while the walk goes on. A group that no target
// depends on has an undefined gradient. Throws Unimplemented, naming the op and why, when the path
// leads through an op without gradient.
//
// `final`, where given, gets the number of each source, counted over all groups one after the
// other, and its gradient as soon as nothing can be added to the gradient any more; sources without
// a gradient come last.
using FinalGradient = std::function<void(size_t source, const Gradient& gradient)>;
Gradients backward(std::vector<OpCall> calls, std::span<const Tensor> targets,
                   std::span<const Tensor> seeds, const std::vector<std::vector<Tensor>>& groups,
                   const FinalGradient& final = nullptr);

}  // namespace cohort::internal
