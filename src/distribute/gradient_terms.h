#pragma once

#include <vector>

#include "cohort/strategy.h"

namespace cohort::internal {

// The gradients of all replicas, in their order, for an update that adds them up as it goes: one
// pass over memory instead of two. Empty, in all replicas alike, where they are better reduced
// first: they are not all dense floating numbers of the same shapes, or there are so many that
// reading all of them costs more than sharing the work. All replicas must call it.
// Throws FailedPrecondition when the replicas do not update the same variables.
std::vector<Gradients> gradient_terms(ReplicaContext& replica, const Gradients& own,
                                      const std::vector<Variable>& variables);

// After the update: waits until all replicas have read the terms, whose memory may be somebody
// else's, who goes on to write to it.
void end_of_terms(ReplicaContext& replica);

}  // namespace cohort::internal
