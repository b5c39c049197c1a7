#pragma once

#include "cohort/data.h"
#include "data/auto_shard.h"

namespace cohort::data::internal {

inline constexpr int64_t kUnknownBatchSize = -1;

// Returns the size of a dataset's batches if its description tells, else kUnknownBatchSize. The
// size is the first dimension that all tensors of an element share, or the size of the last batch
// stage.
int64_t batch_size_of(const Dataset& dataset);

// Throws InvalidArgument, "[operation] ...", if a tensor of the elements is known to be a scalar,
// so that the elements are not batches.
void check_batched(std::string_view operation, const Dataset& dataset);

// One of the workers that share a dataset.
struct InputShare {
  int64_t workers = 1;
  int64_t worker = 0;
  int64_t replicas_per_worker = 1;

  int64_t replicas() const { return workers * replicas_per_worker; }
};

// Returns the sizes, in turn, of the batches of one worker's replicas if all replicas together take
// `global_batch` samples in each step. The sizes differ by at most one.
std::vector<int64_t> replica_batch_sizes(int64_t global_batch, const InputShare& share);

// Cuts global batches into batches for replicas. If the batch size is unknown, or if workers divide
// the elements (resolved policy Data), each batch is cut into equal parts; otherwise the samples
// are batched again by replica_batch_sizes(). Throws InvalidArgument if the elements are not
// batches.
Dataset rebatch_for_replicas(const Dataset& dataset, AutoShardPolicy resolved,
                             const InputShare& share);

// Decides how a dataset of global batches is divided among workers, by the policy of its options.
// One worker decides for all workers.
ShardPlan plan_input(const Dataset& dataset, const InputShare& share);

// Returns the dataset that a worker iterates over: batches for its replicas, with one prefetched
// element per replica, sharded by the plan. Element k is for local replica k mod
// replicas_per_worker.
Dataset replica_input(const Dataset& dataset, const InputShare& share, const ShardPlan& plan);

}  // namespace cohort::data::internal
