#include "data/node.h"

#include <algorithm>
#include <unordered_set>

namespace cohort::data::internal {

Block Cursor::next_block(int64_t most) {
  std::vector<int64_t> indices;
  indices.reserve(static_cast<size_t>(std::min<int64_t>(most, 4096)));
  while (static_cast<int64_t>(indices.size()) < most) {
    const int64_t row = next_row();
    if (row < 0) break;
    indices.push_back(row);
  }
  if (indices.empty()) return {};
  return {static_cast<int64_t>(indices.size()), table()->rows(indices)};
}

void add_options(const DatasetOptions& later, DatasetOptions& all) {
  if (later.auto_shard_policy) all.auto_shard_policy = later.auto_shard_policy;
  if (later.deterministic) all.deterministic = later.deterministic;
  if (later.threads) all.threads = later.threads;
}

DatasetOptions Node::options() const {
  DatasetOptions all;
  for (const NodePtr& input : inputs) add_options(input->options(), all);
  return all;
}

namespace {

void add_stages(const NodePtr& node, std::unordered_set<const Node*>& seen,
                std::vector<NodePtr>& all) {
  if (!seen.insert(node.get()).second) return;
  for (const NodePtr& input : node->inputs) add_stages(input, seen, all);
  all.push_back(node);
}

}  // namespace

std::vector<NodePtr> all_stages(const NodePtr& last) {
  std::unordered_set<const Node*> seen;
  std::vector<NodePtr> all;
  add_stages(last, seen, all);
  return all;
}

Code code_in_stage(const Status& failure) {
  return failure.code == Code::OutOfRange ? Code::InvalidArgument : failure.code;
}

void raise_in_stage(std::string_view stage, int64_t index, const Status& failure) {
  Status status{.code = code_in_stage(failure),
                .message = fmt::format("[{}] element {}: {}", stage, index, failure.message)};
  status.origin = failure.origin;
  status.cause = failure.cause;
  throw Error(std::move(status));
}

void check_running(const Context& context) {
  if (context.stop.stop_requested()) {
    raise(Code::Cancelled, "[Iterator] the iterator was destroyed while elements were being made");
  }
}

}  // namespace cohort::data::internal
