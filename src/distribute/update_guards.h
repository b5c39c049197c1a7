#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cohort/guards.h"
#include "cohort/strategy.h"

namespace cohort::internal {

class DistributedVariable;

// An update that is about to be made.
struct PlannedUpdate {
  const Gradients& own;   // of this replica
  const Gradients& sums;  // over all replicas
  const std::vector<Variable>& variables;
  const Variable& steps_before;
};
// Whether it is to be made. Does what the strategy's guards say when a sum is not finite, which
// names the step, the variables, and the replicas with their workers. All replicas must call it.
bool passes_finite_guard(ReplicaContext& replica, const PlannedUpdate& update);

// Whether the copies are to be compared after so many updates.
bool divergence_guard_is_due(const GuardOptions& options, int64_t updates);
// Compares the copies of the variables after update `step`. All replicas must call it, after they
// changed their own copies.
void guard_against_divergence(ReplicaContext& replica, const GuardOptions& options,
                              const std::vector<Variable>& variables, int64_t step);

// A write of all copies of a variable outside of replicas. On several workers, which all must call
// it, the values are compared by their hashes: throws FailedPrecondition when they differ. Returns
// what to write: the values, which in a graph are compared when it runs and throw InvalidArgument
// then. Strings in a graph are not compared.
std::vector<Tensor> guard_write_across(const DistributedVariable& variable, std::string_view what,
                                       std::vector<Tensor> values);

}  // namespace cohort::internal
