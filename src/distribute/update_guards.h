#pragma once

#include <vector>

#include "cohort/guards.h"
#include "cohort/strategy.h"

namespace cohort::internal {

// Whether an update with these gradients is to be made: `sums` are those of all replicas, `own`
// this one's. Does what `action` says when a sum is not finite. All replicas must call it.
bool passes_finite_guard(ReplicaContext& replica, GuardAction action, const Gradients& own,
                         const Gradients& sums, const std::vector<Variable>& variables);

// Compares the copies of the variables when update `step` is due for it. All replicas must call it,
// after they changed their own copies.
void guard_against_divergence(ReplicaContext& replica, const GuardOptions& options,
                              const std::vector<Variable>& variables, int64_t step);

}  // namespace cohort::internal
