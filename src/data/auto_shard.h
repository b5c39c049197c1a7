#pragma once

#include "cohort/dataset.h"

namespace cohort::data::internal {

// Divides a dataset among workers and their replicas: each worker gets a rewritten description.

// How a dataset is divided. The chief makes the plan for all workers, so that all divide the data
// the same way, even if their functions and files differ.
struct ShardPlan {
  AutoShardPolicy policy = AutoShardPolicy::Off;
  // One digit per stage that was examined, in that order: whether the stage reads files.
  std::string reads_files = {};

  friend bool operator==(const ShardPlan&, const ShardPlan&) = default;
};

// Decides what `policy` means for this dataset: Auto becomes File if the files of a reader can be
// divided, else Data. To see whether functions read files, it calls the functions of flat_map and
// interleave on one element, and the function of a map whose input is strings. Throws the error of
// such a function, and InvalidArgument if `policy` is not an AutoShardPolicy.
ShardPlan plan_shards(const Dataset& dataset, AutoShardPolicy policy);

// Returns the share of worker `worker` of `workers`:
//   Off   all elements.
//   Data  elements worker, worker + workers, ...; trailing prefetch stages stay at the end.
//   File  files worker, worker + workers, ... of each reader. The names are divided before they are
//         shuffled, so that workers agree on the division. NotFound if files cannot be divided.
//   Hint  each shard(kShardHint, ...) becomes shard(workers, worker), also in the datasets that the
//         functions of flat_map and interleave make.
// A single worker gets all elements. With Data, File and Hint, iterating throws InvalidArgument on
// every worker if there are fewer elements (files) than workers.
Dataset auto_shard(const Dataset& dataset, const ShardPlan& plan, int64_t workers, int64_t worker);

// Logs, once for each pipeline, that Auto means Data.
void warn_of_data_sharding(const Dataset& dataset, int64_t workers);

// Divides a dataset by the policy Hint.
Dataset fill_shard_hints(const Dataset& dataset, int64_t workers, int64_t worker);

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
