#include "data/auto_shard.h"

#include <algorithm>
#include <mutex>
#include <set>

#include "base/log.h"
#include "data/byte_source.h"
#include "data/flat_map.h"
#include "data/shard.h"

namespace cohort::data::internal {

namespace {

// The same stage on other inputs.
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

struct Share {
  int64_t workers;
  int64_t worker;
};

void check_policy(AutoShardPolicy policy) {
  if (policy >= AutoShardPolicy::Off && policy <= AutoShardPolicy::Hint) return;
  raise(Code::InvalidArgument, "[AutoShard] {} is not an AutoShardPolicy",
        static_cast<int>(policy));
}

// Whether ask(first element of the input) gives true; not when there is none, or it fails.
template <typename Ask>
bool first_element_tells(const Node& node, const Ask& ask) {
  bool answer = false;
  (void)capture_status([&] {
    const Dataset input = DatasetAccess::make(node.inputs[0]);
    const std::optional<Element> first = input.iterate().next_optional();
    answer = first && ask(*first);
  });
  return answer;
}

bool takes_file_names(const Node& node);

// Whether `node` is a map whose function opens the file that a string names.
bool maps_file_names(const Node& node) {
  const Function* function = node.element_function();
  if (function == nullptr || node.input().spec() != ElementSpec(TensorSpec{kString, {}})) {
    return false;
  }
  return first_element_tells(node, [&](const Element& name) {
    const int64_t before = files_opened_here();
    (void)capture_status([&] { (*function)(name); });
    return files_opened_here() > before;
  });
}

bool reads_files(const Node& node) {
  return takes_file_names(node) ||
         std::ranges::any_of(node.inputs,
                             [](const NodePtr& input) { return reads_files(*input); }) ||
         maps_file_names(node);
}

// Whether the datasets that flat_map or interleave makes read files: the first one tells.
bool expands_to_files(const Node& node) {
  return first_element_tells(node, [&](const Element& first) {
    return reads_files(*DatasetAccess::node((*node.dataset_function())(first)));
  });
}

// Whether the input of `node` is, by its kind, a stream of file names.
bool takes_file_names(const Node& node) {
  if (node.role() == NodeRole::Reader) return true;
  return node.role() == NodeRole::Expand && expands_to_files(node);
}

bool is_shuffle(const Node& node) { return node.kind() == "Shuffle"; }

NodePtr without_shuffles(const NodePtr& node, std::vector<NodePtr>& shuffles) {
  const NodePtr bare = with_changed_inputs(
      *node, [&](const NodePtr& input) { return without_shuffles(input, shuffles); });
  if (!is_shuffle(*node)) return bare;
  shuffles.push_back(node);
  return bare->inputs[0];
}

// The names divided among workers before they are shuffled.
NodePtr shard_names(const NodePtr& names, const Share& share) {
  std::vector<NodePtr> shuffles;
  NodePtr divided = shard_of(without_shuffles(names, shuffles), share.workers, share.worker);
  for (const NodePtr& shuffle : shuffles) divided = with_inputs(*shuffle, {divided});
  return divided;
}

[[noreturn]] void raise_no_files(const Node& node) {
  raise(Code::NotFound,
        "[AutoShard] files cannot be divided among workers, because no reader of files is found "
        "before stage {}; use AutoShardPolicy::Data or Off",
        node.kind());
}

// The dataset with the names of its files divided. Without a share nothing changes, and only
// whether it could is found out.
NodePtr shard_files(const NodePtr& node, const std::optional<Share>& share) {
  const auto names_divided = [&] {
    return share ? with_inputs(*node, {shard_names(node->inputs[0], *share)}) : node;
  };
  if (takes_file_names(*node)) return names_divided();
  const NodeRole role = node->role();
  if (role != NodeRole::PassThrough && role != NodeRole::Transform && role != NodeRole::Join) {
    raise_no_files(*node);
  }
  NodePtr changed;
  const Status failure = capture_status([&] {
    changed =
        with_changed_inputs(*node, [&](const NodePtr& input) { return shard_files(input, share); });
  });
  if (failure.code == Code::NotFound && maps_file_names(*node)) return names_divided();
  throw_if_error(failure);
  return changed;
}

bool can_shard_files(const Dataset& dataset) {
  const Status failure = capture_status([&] { shard_files(DatasetAccess::node(dataset), {}); });
  if (failure.code != Code::NotFound) throw_if_error(failure);
  return failure.ok();
}

NodePtr shard_elements(const NodePtr& node, const Share& share) {
  if (node->kind() == "Prefetch" || node->kind() == "Options") {
    return with_inputs(*node, {shard_elements(node->inputs[0], share)});
  }
  return shard_of(node, share.workers, share.worker);
}

NodePtr fill_hints(const NodePtr& node, const Share& share) {
  const NodePtr filled =
      with_changed_inputs(*node, [&](const NodePtr& input) { return fill_hints(input, share); });
  if (node->role() == NodeRole::Expand) return with_hints(*filled, share.workers, share.worker);
  if (!is_shard_hint(*node)) return filled;
  return shard_of(filled->inputs[0], share.workers, share.worker);
}

NodePtr shard_by(AutoShardPolicy policy, const NodePtr& node, const Share& share) {
  if (policy == AutoShardPolicy::Hint) return fill_hints(node, share);
  if (policy == AutoShardPolicy::Off) return node;
  if (policy == AutoShardPolicy::File) return shard_files(node, share);
  return shard_elements(node, share);
}

// Once for each pipeline, which a program may distribute again in every epoch.
void warn_of_sharing(const Dataset& dataset, int64_t workers) {
  static std::mutex mutex;
  static std::set<std::string> said;
  const std::string stages = dataset.to_string();
  const std::lock_guard lock(mutex);
  if (!said.insert(stages).second) return;
  cohort::internal::log_warning(
      "[AutoShard] no reader of files in {}: every worker reads everything and keeps one batch "
      "in {}; set AutoShardPolicy::Data or Off to say that this is meant",
      stages, workers);
}

}  // namespace

AutoShardPolicy resolve_policy(const Dataset& dataset, AutoShardPolicy policy) {
  check_policy(policy);
  if (policy != AutoShardPolicy::Auto) return policy;
  return can_shard_files(dataset) ? AutoShardPolicy::File : AutoShardPolicy::Data;
}

Dataset fill_shard_hints(const Dataset& dataset, int64_t workers, int64_t worker) {
  return DatasetAccess::make(fill_hints(DatasetAccess::node(dataset), {workers, worker}));
}

Dataset auto_shard(const Dataset& dataset, AutoShardPolicy policy, int64_t workers,
                   int64_t worker) {
  if (workers < 1 || worker < 0 || worker >= workers) {
    raise(Code::InvalidArgument, "[AutoShard] there is no worker {} of {}", worker, workers);
  }
  check_policy(policy);
  if (workers == 1 && policy != AutoShardPolicy::Hint) return dataset;
  const AutoShardPolicy resolved = resolve_policy(dataset, policy);
  if (policy == AutoShardPolicy::Auto && resolved == AutoShardPolicy::Data) {
    warn_of_sharing(dataset, workers);
  }
  return DatasetAccess::make(shard_by(resolved, DatasetAccess::node(dataset), {workers, worker}));
}

}  // namespace cohort::data::internal
