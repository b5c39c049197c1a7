#pragma once

#include "cohort/data.h"

namespace cohort::data::internal {

// Divides a dataset among workers: each worker gets a rewritten description.

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

}  // namespace cohort::data::internal
