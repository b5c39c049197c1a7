#pragma once

#include "cohort/strategy.h"

namespace cohort::internal {

// Lets optimizers find strategies. Called when a strategy is made; calling it again does nothing.
void connect_optimizers();

// In a replica: the sums over all replicas of the gradients of `variables`, by
// StrategyExtended::replica_all_reduce(), or as nodes where the replica traces a function.
Gradients sum_by_all_reduce(ReplicaContext& context, const Gradients& own,
                            const std::vector<Variable>& variables);

// How many lists of gradients an update reads at most, adding them up as it goes. With more lists
// it is quicker to share the additions first.
inline constexpr int kMaxTerms = 2;

// Whether an update can add up gradients of that dtype.
inline bool can_be_term(DType dtype) { return dtype == kFloat32 || dtype == kFloat64; }

}  // namespace cohort::internal
