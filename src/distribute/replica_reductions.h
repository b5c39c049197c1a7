#pragma once

#include "cohort/strategy.h"
#include "distribute/replica_call.h"

namespace cohort::internal {

// In one replica, for all of them: checks that the calls agree and sets everybody's results, by
// batch_reduce_to in cross-replica context.
void reduce_for_all(StrategyExtended& extended, const ReplicaCalls& calls);

// The same for a gather, by gather_to; `rows_before` is how many workers before this one have, a
// scalar of int64; undefined: none.
void gather_for_all(StrategyExtended& extended, const ReplicaCalls& calls,
                    const Tensor& rows_before = {});

// How many rows the replicas' values have together along `axis`, a scalar of int64.
Tensor rows_of_all(std::span<const Gradient> values, int axis);

// Whether this replica builds a graph by itself: in a function that it traces. There is no meeting
// the others then.
bool is_tracing_alone(const ReplicaContext& context);

// Lets the ops of replicas find the strategies.
void connect_replica_ops();

}  // namespace cohort::internal
