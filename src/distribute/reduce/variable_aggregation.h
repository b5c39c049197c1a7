#pragma once

#include <functional>

#include "distribute/variables/distributed_variable.h"

// How the values that several replicas write to one variable become one value. Every replica must
// call these functions, and gets the value for its own copy.
namespace cohort::internal {

// Combines the values of all replicas by the variable's aggregation, which must not be None. A C++
// number cannot be summed: when a replica of any worker gives a number, Sum throws InvalidArgument
// in every replica of every worker. Replicas that do not make the same write of the same variable
// throw FailedPrecondition.
Tensor aggregate(ReplicaContext& replica, const DistributedVariable& variable, Write how,
                 const WrittenValue& given);
// Sum and Mean join the rows of all replicas.
IndexedSlices aggregate(ReplicaContext& replica, const DistributedVariable& variable, ScatterOp op,
                        const IndexedSlices& slices);

// Combines the values that the replicas have in their copies, by the variable's aggregation.
Tensor aggregate_values(ReplicaContext& replica, const DistributedVariable& variable,
                        const Tensor& value);

// Each replica calls this after it has written its copy. Returns when all replicas of this process
// have written theirs.
void await_other_copies(ReplicaContext& replica);

// Calls `body` once for all replicas, in cross-replica context, and gives its result to each
// replica. `body` sees the effects of all replicas' code before the call, and code after the call
// sees the effects of `body`.
Tensor once_for_all(ReplicaContext& replica, const std::function<Tensor()>& body);

// Throws Unimplemented when rows of several replicas cannot be combined by `op`.
void require_scatter(const DistributedVariable& variable, ScatterOp op);

}  // namespace cohort::internal
