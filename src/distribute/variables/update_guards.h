#pragma once

#include <string_view>
#include <vector>

#include "cohort/strategy_extended.h"

namespace cohort::internal {

class DistributedVariable;

// Whether the update is to be made, for a strategy whose guard of finite gradients is on. `own` are
// the gradients of this replica, `sums` those over all replicas, and `steps` counts the updates
// before this one. If a sum is not finite, does what the guard says; the message names the step,
// the variables, and the replicas with their workers. All replicas must call this.
bool passes_finite_guard(ReplicaContext& replica, const Gradients& own, const Gradients& sums,
                         const std::vector<Variable>& variables, const Variable& steps);

// Whether the copies are to be compared after that many updates.
inline bool divergence_guard_is_due(const GuardOptions& options, int64_t updates) {
  if (options.divergence == GuardAction::Off || !options.divergence_interval) return false;
  return updates == 1 || updates % *options.divergence_interval == 0;
}
// Compares the copies of the variables after update `step`. All replicas must call this after they
// have changed their own copies.
void guard_against_divergence(ReplicaContext& replica, const GuardOptions& options,
                              const std::vector<Variable>& variables, int64_t step);

// For a write of all copies of a variable outside of replicas. All workers must call this. It
// compares their values by hashes, and throws FailedPrecondition if they differ. Returns the values
// to write. In a graph these compare themselves when the graph runs, and throw InvalidArgument
// then; strings in a graph are not compared.
std::vector<Tensor> guard_write_across(const DistributedVariable& variable, std::string_view what,
                                       std::vector<Tensor> values);

}  // namespace cohort::internal
