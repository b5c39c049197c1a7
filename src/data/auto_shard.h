#pragma once

#include "cohort/data.h"

namespace cohort::data::internal {

// How the elements of a dataset go to workers: rewritten descriptions, one for each worker.

// What one worker, the chief, finds out for all: the others divide the data the same way, whatever
// their own functions and files would say.
struct ShardPlan {
  AutoShardPolicy policy = AutoShardPolicy::Off;
  // Whether each stage that was asked reads files: a digit each, in the order of asking.
  std::string reads_files = {};

  friend bool operator==(const ShardPlan&, const ShardPlan&) = default;
};

// Which policy `policy` means for this dataset: Auto is File when a reader of files can be divided,
// else Data. Only the description is looked at; of flat_map and interleave, and of a map of strings
// that no reader of files gave, the function is called on one element, to see whether it reads
// files. Throws what that throws, and InvalidArgument for a value that is no policy.
ShardPlan plan_shards(const Dataset& dataset, AutoShardPolicy policy);

// The share of worker `worker` of `workers`:
//   Off   everything.
//   Data  elements worker, worker + workers, ...; trailing prefetch stages stay at the end.
//   File  such a share of the files that each reader is given; a shuffle of their names comes after
//         the division, so that workers agree on it. NotFound where files cannot be divided.
//   Hint  each shard(kShardHint, ...) becomes shard(workers, worker), also in the datasets that the
//         functions of flat_map and interleave make.
// One worker gets everything. The shards of Data, File and Hint throw InvalidArgument, on every
// worker, when there are fewer elements (files) than workers.
Dataset auto_shard(const Dataset& dataset, const ShardPlan& plan, int64_t workers, int64_t worker);

// Says, once for each pipeline, that Auto means Data.
void warn_of_data_sharding(const Dataset& dataset, int64_t workers);

// What Hint does.
Dataset fill_shard_hints(const Dataset& dataset, int64_t workers, int64_t worker);

}  // namespace cohort::data::internal
