#include "data/replica_input.h"

#include <algorithm>

#include "data/node.h"

namespace cohort::data::internal {

namespace {

// Returns the first dimensions of all tensors; nullopt if one is unknown.
std::optional<std::vector<int64_t>> first_sizes(const ElementSpec& spec) {
  std::vector<int64_t> sizes;
  for (const TensorSpec& tensor : spec.tensors()) {
    if (tensor.shape.rank() < 1 || tensor.shape[0] < 0) return std::nullopt;
    sizes.push_back(tensor.shape[0]);
  }
  if (sizes.empty()) return std::nullopt;
  return sizes;
}

int64_t common_size(const std::vector<int64_t>& sizes) {
  const bool equal = std::ranges::all_of(sizes, [&](int64_t size) { return size == sizes[0]; });
  return equal ? sizes[0] : kUnknownBatchSize;
}

// Returns the size that the last batch stage sets.
int64_t size_by_stages(const Node& node) {
  if (node.batch_size() >= 0) return node.batch_size();
  if (node.role() == NodeRole::PassThrough) return size_by_stages(node.input());
  if (node.role() != NodeRole::Join) return kUnknownBatchSize;
  std::vector<int64_t> sizes;
  for (const NodePtr& input : node.inputs) sizes.push_back(size_by_stages(*input));
  return common_size(sizes);
}

}  // namespace

int64_t batch_size_of(const Dataset& dataset) {
  if (const std::optional<ElementSpec> spec = dataset.element_spec()) {
    if (const auto sizes = first_sizes(*spec)) return common_size(*sizes);
  }
  return size_by_stages(*DatasetAccess::node(dataset));
}

void check_batched(std::string_view operation, const Dataset& dataset) {
  const std::optional<ElementSpec> spec = dataset.element_spec();
  if (!spec) return;
  for (const TensorSpec& tensor : spec->tensors()) {
    if (tensor.shape.rank() != 0) continue;
    raise(Code::InvalidArgument,
          "[{}] the elements are to be divided among replicas, so they must be batches, but they "
          "are {}; call batch() with the global batch size before",
          operation, spec->to_string());
  }
}

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
  // plan_shards() may call functions of the user, so it is called only if the plan matters.
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
