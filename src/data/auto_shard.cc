#include "data/auto_shard.h"

#include <algorithm>
#include <set>

#include "base/log.h"
#include "base/mutex.h"
#include "data/byte_source.h"
#include "data/iterator.h"

namespace cohort::data::internal {

namespace {

// Returns a copy of the stage with other inputs.
NodePtr with_inputs(const Node& node, std::vector<NodePtr> inputs) {
  const std::shared_ptr<Node> copy = node.clone();
  copy->inputs = std::move(inputs);
  return copy;
}

template <typename Change>
NodePtr with_changed_inputs(const Node& node, const Change& change) {
  std::vector<NodePtr> inputs;
  for (const NodePtr& input : node.inputs) inputs.push_back(change(input));
  return with_inputs(node, std::move(inputs));
}

// One worker's shard, of which each must get an element.
NodePtr shard_of(const NodePtr& input, const InputShare& share) {
  const Dataset whole = DatasetAccess::make(input);
  return DatasetAccess::node(whole.shard(share.workers, share.worker, {.require_each = true}));
}

void check_policy(AutoShardPolicy policy) {
  if (policy >= AutoShardPolicy::Off && policy <= AutoShardPolicy::Hint) return;
  raise(Code::InvalidArgument, "[AutoShard] {} is not an AutoShardPolicy",
        static_cast<int>(policy));
}

bool reads_files(const Node& node);

std::optional<Element> first_element(const Node& node) {
  return look_at_first(DatasetAccess::make(node.inputs[0]));
}

// Whether the first dataset that flat_map or interleave makes reads files.
bool expands_to_files(const Node& node) {
  const std::optional<Element> first = first_element(node);
  return first && reads_files(*DatasetAccess::node((*node.dataset_function())(*first)));
}

bool maps_strings(const Node& node) {
  return node.element_function() != nullptr &&
         node.input().spec() == ElementSpec(TensorSpec{kString, {}});
}

// Whether the function of a map of strings opens a file when it is called on the first string.
bool opens_its_string(const Node& node) {
  const std::optional<Element> name = first_element(node);
  if (!name) return false;
  const int64_t before = files_opened_here();
  const Status outcome = capture_status([&] { (*node.element_function())(*name); });
  if (files_opened_here() > before) return true;
  throw_if_error(outcome);
  return false;
}

bool reads_files(const Node& node) {
  if (node.role() == NodeRole::Reader) return true;
  if (node.role() == NodeRole::Expand && expands_to_files(node)) return true;
  return std::ranges::any_of(node.inputs,
                             [](const NodePtr& input) { return reads_files(*input); }) ||
         (maps_strings(node) && opens_its_string(node));
}

// Finds out whether stages of a dataset read files, or takes the answers from a plan.
class Answers {
 public:
  Answers() = default;
  explicit Answers(std::string known) : known_(std::move(known)) {}

  bool expands_to_files(const Node& node) {
    return answer(node, [&] { return internal::expands_to_files(node); });
  }
  bool opens_its_string(const Node& node) {
    return answer(node, [&] { return internal::opens_its_string(node); });
  }
  const std::string& all() const { return given_; }

 private:
  template <typename Ask>
  bool answer(const Node& node, const Ask& ask) {
    if (known_ && given_.size() >= known_->size()) {
      raise(Code::InvalidArgument,
            "[AutoShard] the plan is not for this dataset: it does not mention stage {}",
            node.kind());
    }
    bool yes = false;
    if (known_) {
      yes = (*known_)[given_.size()] == '1';
    } else {
      const Status failure = capture_status([&] { yes = ask(); });
      if (!failure.ok()) raise_undecided(node, failure);
    }
    given_ += yes ? '1' : '0';
    return yes;
  }

  [[noreturn]] static void raise_undecided(const Node& node, const Status& failure) {
    throw Error(Status{
        .code = code_in_stage(failure),
        .message = fmt::format(
            "[AutoShard] cannot find out whether stage {} reads files, because its first element "
            "fails: {}; set AutoShardPolicy::Data or Off if the stage reads no files",
            node.kind(), failure.message),
        .origin = failure.origin,
        .cause = failure.cause});
  }

  std::optional<std::string> known_;
  std::string given_;
};

NodePtr without_shuffles(const NodePtr& node, std::vector<NodePtr>& shuffles) {
  const NodePtr bare = with_changed_inputs(
      *node, [&](const NodePtr& input) { return without_shuffles(input, shuffles); });
  if (!node->shuffles()) return bare;
  shuffles.push_back(node);
  return bare->inputs[0];
}

// Divides the names among workers before they are shuffled.
NodePtr shard_names(const NodePtr& names, const InputShare& share) {
  std::vector<NodePtr> shuffles;
  NodePtr divided = shard_of(without_shuffles(names, shuffles), share);
  for (const NodePtr& shuffle : shuffles) divided = with_inputs(*shuffle, {divided});
  return divided;
}

// Thrown if files cannot be divided. A separate type, because a user's function may throw NotFound.
class NoFiles : public Error {
  using Error::Error;
};

[[noreturn]] void raise_no_files(const Node& node) {
  throw NoFiles(
      Code::NotFound,
      fmt::format("[AutoShard] files cannot be divided among workers, because no reader of files "
                  "is found before stage {}; use AutoShardPolicy::Data or Off",
                  node.kind()));
}

// Returns the dataset with its file names divided. Without a share it returns the dataset
// unchanged, and throws NoFiles if files cannot be divided.
NodePtr shard_files(const NodePtr& node, const std::optional<InputShare>& share, Answers& answers) {
  const auto names_divided = [&] {
    return share ? with_inputs(*node, {shard_names(node->inputs[0], *share)}) : node;
  };
  const NodeRole role = node->role();
  if (role == NodeRole::Reader) return names_divided();
  if (role == NodeRole::Expand && answers.expands_to_files(*node)) return names_divided();
  if (role != NodeRole::PassThrough && role != NodeRole::Transform && role != NodeRole::Join) {
    raise_no_files(*node);
  }
  try {
    return with_changed_inputs(
        *node, [&](const NodePtr& input) { return shard_files(input, share, answers); });
  } catch (const NoFiles&) {
    if (!maps_strings(*node) || !answers.opens_its_string(*node)) throw;
    return names_divided();
  }
}

NodePtr shard_elements(const NodePtr& node, const InputShare& share) {
  if (node->is_sharded_before()) {
    return with_inputs(*node, {shard_elements(node->inputs[0], share)});
  }
  return shard_of(node, share);
}

NodePtr fill_hints(const NodePtr& node, const InputShare& share) {
  const std::shared_ptr<Node> copy = node->clone();
  for (NodePtr& input : copy->inputs) input = fill_hints(input, share);
  copy->fill_shard_hint(share.workers, share.worker);
  return copy;
}

NodePtr shard_by(const ShardPlan& plan, const NodePtr& node, const InputShare& share) {
  if (plan.policy == AutoShardPolicy::Hint) return fill_hints(node, share);
  if (plan.policy == AutoShardPolicy::Off) return node;
  if (plan.policy == AutoShardPolicy::Data) return shard_elements(node, share);
  Answers answers(plan.reads_files);
  return shard_files(node, share, answers);
}

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

ShardPlan plan_shards(const Dataset& dataset, AutoShardPolicy policy) {
  check_policy(policy);
  if (policy != AutoShardPolicy::Auto && policy != AutoShardPolicy::File) return {policy};
  Answers answers;
  try {
    shard_files(DatasetAccess::node(dataset), {}, answers);
  } catch (const NoFiles&) {
    if (policy == AutoShardPolicy::Auto) return {AutoShardPolicy::Data};
  }
  return {AutoShardPolicy::File, answers.all()};
}

void warn_of_data_sharding(const Dataset& dataset, int64_t workers) {
  static cohort::internal::Mutex mutex;
  static std::set<std::string> said;
  const std::string stages = dataset.to_string();
  const std::lock_guard lock(mutex);
  if (!said.insert(stages).second) return;  // a program may distribute it again in every epoch
  cohort::internal::log_warning(
      "[AutoShard] the dataset {} has no reader of files: every worker reads everything and keeps "
      "one batch in {}; set AutoShardPolicy::Data or Off to confirm this",
      stages, workers);
}

Dataset fill_shard_hints(const Dataset& dataset, int64_t workers, int64_t worker) {
  return DatasetAccess::make(fill_hints(DatasetAccess::node(dataset), {workers, worker}));
}

Dataset auto_shard(const Dataset& dataset, const ShardPlan& plan, int64_t workers, int64_t worker) {
  if (workers < 1 || worker < 0 || worker >= workers) {
    raise(Code::InvalidArgument, "[AutoShard] the worker must be in [0, {}), got {}", workers,
          worker);
  }
  if (workers == 1 && plan.policy != AutoShardPolicy::Hint) return dataset;
  return DatasetAccess::make(shard_by(plan, DatasetAccess::node(dataset), {workers, worker}));
}

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
          "[{}] the elements must be batches, which are divided among replicas, but they are {}; "
          "call batch() with the global batch size first",
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
    raise(Code::InvalidArgument,
          "[DistributeDataset] at least 1 worker and 1 replica are needed, got {} workers with {} "
          "replicas each",
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
