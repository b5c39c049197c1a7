#pragma once

#include "cohort/strategy.h"
#include "distribute/contexts/replica_call.h"

namespace cohort::internal {

// In each replica: the replicas meet. After a check that their calls agree, one replica calls
// `once`, which sets the results of all calls.
void meet_once(ReplicaContext& context, ReplicaCall& own,
               const std::function<void(const ReplicaCalls&)>& once);

// One replica calls this for all: checks that the calls agree and sets the results of all calls, by
// batch_reduce_to in cross-replica context.
void reduce_for_all(StrategyExtended& extended, const ReplicaCalls& calls);

// Whether this replica builds a graph by itself, in a function that it traces. Then it cannot meet
// the other replicas.
bool is_tracing_alone(const ReplicaContext& context);
// Adds nodes to such a function: rows are gathered, dense values are reduced. The replicas compare
// the purpose of this thread when the nodes run.
std::vector<Gradient> trace_all_reduce(ReduceOp op, const std::vector<Gradient>& values,
                                       int replicas, const CommunicationOptions& options);

// Lets the ops of replicas find the strategies.
void connect_replica_ops();

}  // namespace cohort::internal
