#include "runtime/partial_run.h"

#include <algorithm>

#include "base/raise.h"

namespace cohort::internal {
namespace {

std::set<NodeOutput> set_of(const std::vector<NodeOutput>& node_outputs) {
  return {node_outputs.begin(), node_outputs.end()};
}

bool is_handle(const GraphImpl& graph, NodeOutput node_output) {
  return graph.node(node_output.node).outputs[static_cast<size_t>(node_output.output)].dtype ==
         kResource;
}

bool makes_handles(const Node& node) {
  const auto is_resource = [](const Spec& spec) { return spec.dtype == kResource; };
  return !node.outputs.empty() &&
         std::all_of(node.outputs.begin(), node.outputs.end(), is_resource);
}

}  // namespace

PartialRunState::PartialRunState(std::shared_ptr<const GraphImpl> graph, RunRequest declared)
    : graph_(std::move(graph)),
      declared_(std::move(declared)),
      all_(needed_nodes(*graph_, declared_)),
      feeds_(set_of(declared_.feeds)),
      fetches_(set_of(declared_.fetches)) {}

void PartialRunState::check(const RunRequest& asked) const {
  const auto demand = [&](NodeOutput node_output, const std::set<NodeOutput>& among,
                          const std::set<NodeOutput>& before, std::string_view what) {
    if (!among.contains(node_output)) {
      raise(Code::InvalidArgument, "[PartialRun] '{}' was not declared as a {} by its setup",
            output_name(*graph_, node_output), what);
    }
    if (before.contains(node_output)) {
      raise(Code::InvalidArgument, "[PartialRun] the {} '{}' has been there in an earlier piece",
            what, output_name(*graph_, node_output));
    }
  };
  for (const NodeOutput feed : asked.feeds) demand(feed, feeds_, fed_, "feed");
  for (const NodeOutput fetch : asked.fetches) demand(fetch, fetches_, fetched_, "fetch");
}

void PartialRunState::check_computable(const RunRequest& asked, const std::vector<int>& nodes,
                                       const std::set<NodeOutput>& known) const {
  const auto demand = [&](NodeOutput input) {
    if (!feeds_.contains(input) || known.contains(input)) return;
    raise(Code::InvalidArgument,
          "[PartialRun] a fetch of this piece needs '{}', which has not been fed yet",
          output_name(*graph_, input));
  };
  for (const NodeOutput fetch : asked.fetches) demand(fetch);
  for (const int id : nodes) {
    for (const NodeOutput input : graph_->node(id).inputs) demand(input);
  }
}

std::vector<Tensor> PartialRunState::advance(const GraphImpl& graph, const RunRequest& asked,
                                             const std::vector<Tensor>& values,
                                             const Execute& execute) {
  const std::lock_guard lock(mutex_);
  if (&graph != graph_.get()) {
    raise(Code::InvalidArgument, "[PartialRun] it was set up by a session of another graph");
  }
  throw_if_error(failure_);
  check(asked);
  std::set<NodeOutput> known = set_of(asked.feeds);
  for (const auto& [node_output, value] : values_) known.insert(node_output);
  RunRequest bounded{.feeds = declared_.feeds,
                     .fetches = asked.fetches,
                     .over = std::vector<int>(over_.begin(), over_.end())};
  bounded.feeds.insert(bounded.feeds.end(), known.begin(), known.end());
  const std::vector<int> nodes = needed_nodes(*graph_, bounded);
  check_computable(asked, nodes, known);

  for (size_t i = 0; i < asked.feeds.size(); ++i) values_[asked.feeds[i]] = values[i];
  fed_.insert(asked.feeds.begin(), asked.feeds.end());
  std::vector<Tensor> results;
  failure_ = capture_status([&] { results = run(asked, nodes, execute); });
  throw_if_error(failure_);
  fetched_.insert(asked.fetches.begin(), asked.fetches.end());
  if (fetched_ == fetches_) values_.clear();
  return results;
}

std::vector<NodeOutput> PartialRunState::kept_of(const std::set<int>& nodes,
                                                 const RunRequest& asked) const {
  const std::set<NodeOutput> returned = set_of(asked.fetches);
  std::set<NodeOutput> kept;
  const auto keep = [&](NodeOutput node_output) {
    if (nodes.contains(node_output.node) && !feeds_.contains(node_output) &&
        !is_handle(*graph_, node_output)) {
      kept.insert(node_output);
    }
  };
  for (const int id : all_) {
    if (nodes.contains(id) || over_.contains(id)) continue;
    for (const NodeOutput input : graph_->node(id).inputs) keep(input);
  }
  for (const NodeOutput fetch : fetches_) {
    if (!returned.contains(fetch)) keep(fetch);
  }
  return {kept.begin(), kept.end()};
}

std::vector<Tensor> PartialRunState::run(const RunRequest& asked, const std::vector<int>& nodes,
                                         const Execute& execute) {
  if (asked.fetches.empty()) return {};
  const std::set<int> running(nodes.begin(), nodes.end());
  RunRequest request{.fetches = asked.fetches, .over = {over_.begin(), over_.end()}};
  std::vector<Tensor> given;
  const std::vector<NodeOutput> kept = kept_of(running, asked);
  request.fetches.insert(request.fetches.end(), kept.begin(), kept.end());
  for (const auto& [node_output, value] : values_) {
    request.feeds.push_back(node_output);
    given.push_back(value);
  }
  std::vector<Tensor> results = execute(request, given);
  for (size_t i = 0; i < kept.size(); ++i) values_[kept[i]] = results[asked.fetches.size() + i];
  for (const int id : nodes) {
    if (!makes_handles(graph_->node(id))) over_.insert(id);
  }
  results.resize(asked.fetches.size());
  return results;
}

}  // namespace cohort::internal
