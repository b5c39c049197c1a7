#include "data/replica_input.h"

#include <algorithm>

#include "base/raise.h"
#include "data/batch_size.h"

namespace cohort::data::internal {

using cohort::internal::raise;

std::vector<int64_t> replica_batch_sizes(int64_t global_batch, const InputShare& share) {
  const int64_t replicas = share.replicas();
  std::vector<int64_t> sizes(static_cast<size_t>(replicas), global_batch / replicas);
  for (int64_t i = 0; i < global_batch % replicas; ++i) ++sizes[static_cast<size_t>(i)];
  const auto first = sizes.begin() + share.worker * share.replicas_per_worker;
  std::rotate(sizes.begin(), first, sizes.end());
  return sizes;
}

Dataset rebatch_for_replicas(const Dataset& dataset, AutoShardPolicy resolved,
                             const InputShare& share) {
  check_batched("DistributeDataset", dataset);
  const int64_t global_batch = batch_size_of(dataset);
  if (global_batch < 1 || resolved == AutoShardPolicy::Data) {
    return dataset.split_batches(share.replicas());
  }
  return dataset.rebatch(replica_batch_sizes(global_batch, share));
}

ShardPlan plan_input(const Dataset& dataset, const InputShare& share) {
  if (share.workers < 1 || share.replicas_per_worker < 1) {
    raise(Code::InvalidArgument, "[DistributeDataset] {} workers with {} replicas each",
          share.workers, share.replicas_per_worker);
  }
  const AutoShardPolicy policy =
      dataset.options().auto_shard_policy.value_or(AutoShardPolicy::Auto);
  // No function is called to find out what does not matter.
  const bool matters =
      share.workers > 1 || (share.replicas_per_worker > 1 && policy == AutoShardPolicy::Auto);
  const ShardPlan plan = matters ? plan_shards(dataset, policy) : ShardPlan{.policy = policy};
  if (share.workers > 1 && policy == AutoShardPolicy::Auto &&
      plan.policy == AutoShardPolicy::Data) {
    warn_of_data_sharding(dataset, share.workers);
  }
  return plan;
}

Dataset replica_input(const Dataset& dataset, const InputShare& share, const ShardPlan& plan) {
  Dataset input = dataset;
  if (share.replicas() > 1) {
    input = rebatch_for_replicas(input, plan.policy, share)
                .prefetch(static_cast<int>(share.replicas_per_worker));
  }
  return auto_shard(input, plan, share.workers, share.worker);
}

}  // namespace cohort::data::internal
