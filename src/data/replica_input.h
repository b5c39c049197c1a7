#pragma once

#include "cohort/data.h"
#include "data/auto_shard.h"

namespace cohort::data::internal {

// One worker among those that share a dataset.
struct InputShare {
  int64_t workers = 1;
  int64_t worker = 0;
  int64_t replicas_per_worker = 1;

  int64_t replicas() const { return workers * replicas_per_worker; }
};

// The sizes, in turn, of the batches of one worker's replicas, when all replicas together take
// `global_batch` samples in each step: they differ by at most one.
std::vector<int64_t> replica_batch_sizes(int64_t global_batch, const InputShare& share);

// Global batches cut into those of replicas: by replica_batch_sizes() where the batch size is known
// and elements are not divided among workers (resolved policy Data), else each batch by itself.
// Throws InvalidArgument for a dataset without batches.
Dataset rebatch_for_replicas(const Dataset& dataset, AutoShardPolicy resolved,
                             const InputShare& share);

// How the dataset, of global batches, goes to the workers by the policy of its options. One worker
// decides for all.
ShardPlan plan_input(const Dataset& dataset, const InputShare& share);

// What a worker iterates then: rebatched for its replicas, so many elements prefetched, and
// sharded. Element k is for local replica k mod replicas_per_worker.
Dataset replica_input(const Dataset& dataset, const InputShare& share, const ShardPlan& plan);

}  // namespace cohort::data::internal
