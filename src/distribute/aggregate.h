#pragma once

#include <functional>

#include "distribute/distributed_variable.h"

// How what several replicas write to one variable becomes one value. Every replica must call these,
// and gets the value for its own copy.
namespace cohort::internal {

// By the variable's aggregation, which is not None. A C++ number is no part of a sum: when a
// replica of any worker gives one, Sum throws InvalidArgument in every replica of every worker.
// Replicas that do not make the same write of the same variable throw FailedPrecondition.
Tensor aggregate(ReplicaContext& replica, const DistributedVariable& variable, Write how,
                 const WrittenValue& given);
// Sum and Mean join the rows of all replicas.
IndexedSlices aggregate(ReplicaContext& replica, const DistributedVariable& variable, ScatterOp op,
                        const IndexedSlices& slices);

// The same for what every replica has in its copy.
Tensor aggregate_values(ReplicaContext& replica, const DistributedVariable& variable,
                        const Tensor& value);

// After each replica has written its copy: when it returns, all have.
void await_other_copies(ReplicaContext& replica);

// Calls `body` once for all replicas, in cross-replica context, and gives each its result. The
// effects of all replicas' code before it are there, and `body`'s are for the code after it.
Tensor once_for_all(ReplicaContext& replica, const std::function<Tensor()>& body);

// Throws Unimplemented when rows of several replicas cannot be combined by `op`.
void require_scatter(const DistributedVariable& variable, ScatterOp op);

}  // namespace cohort::internal
