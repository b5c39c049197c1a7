#pragma once

#include "cohort/strategy.h"

namespace cohort::internal {

// In a replica: the sums over all replicas of the gradients of `variables`, by
// StrategyExtended::replica_all_reduce(), or as nodes where the replica traces a function.
Gradients sum_by_all_reduce(ReplicaContext& context, const Gradients& own,
                            const std::vector<Variable>& variables);

}  // namespace cohort::internal
