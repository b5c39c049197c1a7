#pragma once

#include <memory>

#include "cohort/strategy_extended.h"
#include "distribute/contexts/replica_threads.h"
#include "distribute/reduce/thread_all_reduce.h"

namespace cohort::internal {

// StrategyImpl is what a StrategyExtended keeps. Everything but the threads is set when it becomes
// part of a Strategy.
struct StrategyImpl {
  Strategy* strategy = nullptr;
  size_t local_replicas = 0;
  int replicas_in_sync = 0;
  int first_replica_id = 0;
  // The threads of the replicas; they are kept from run to run.
  ReplicaThreadPool threads;
  // The fast form of DirectAllReduce, for replicas that meet; null for other algorithms.
  std::unique_ptr<ThreadAllReduce> thread_all_reduce;
};

}  // namespace cohort::internal
