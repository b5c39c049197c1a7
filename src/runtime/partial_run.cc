#include "runtime/partial_run.h"

#include <algorithm>

#include "base/raise.h"

namespace cohort::internal {
namespace {

std::set<Endpoint> set_of(const std::vector<Endpoint>& endpoints) {
  return {endpoints.begin(), endpoints.end()};
}

bool is_handle(const GraphImpl& graph, Endpoint endpoint) {
  return graph.node(endpoint.node).outputs[static_cast<size_t>(endpoint.output)].dtype == kResource;
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
  const auto demand = [&](Endpoint endpoint, const std::set<Endpoint>& among,
                          const std::set<Endpoint>& before, std::string_view what) {
    if (!among.contains(endpoint)) {
      raise(Code::InvalidArgument, "[PartialRun] '{}' was not declared as a {} by its setup",
            endpoint_name(*graph_, endpoint), what);
    }
    if (before.contains(endpoint)) {
      raise(Code::InvalidArgument, "[PartialRun] the {} '{}' has been there in an earlier piece",
            what, endpoint_name(*graph_, endpoint));
    }
  };
  for (const Endpoint feed : asked.feeds) demand(feed, feeds_, fed_, "feed");
  for (const Endpoint fetch : asked.fetches) demand(fetch, fetches_, fetched_, "fetch");
}

void PartialRunState::check_computable(const RunRequest& asked, const std::vector<int>& nodes,
                                       const std::set<Endpoint>& known) const {
  const auto demand = [&](Endpoint input) {
    if (!feeds_.contains(input) || known.contains(input)) return;
    raise(Code::InvalidArgument,
          "[PartialRun] a fetch of this piece needs '{}', which has not been fed yet",
          endpoint_name(*graph_, input));
  };
  for (const Endpoint fetch : asked.fetches) demand(fetch);
  for (const int id : nodes) {
    for (const Endpoint input : graph_->node(id).inputs) demand(input);
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
  std::set<Endpoint> known = set_of(asked.feeds);
  for (const auto& [endpoint, value] : values_) known.insert(endpoint);
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

std::vector<Endpoint> PartialRunState::kept_of(const std::set<int>& nodes,
                                               const RunRequest& asked) const {
  const std::set<Endpoint> returned = set_of(asked.fetches);
  std::set<Endpoint> kept;
  const auto keep = [&](Endpoint endpoint) {
    if (nodes.contains(endpoint.node) && !feeds_.contains(endpoint) &&
        !is_handle(*graph_, endpoint)) {
      kept.insert(endpoint);
    }
  };
  for (const int id : all_) {
    if (nodes.contains(id) || over_.contains(id)) continue;
    for (const Endpoint input : graph_->node(id).inputs) keep(input);
  }
  for (const Endpoint fetch : fetches_) {
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
  const std::vector<Endpoint> kept = kept_of(running, asked);
  request.fetches.insert(request.fetches.end(), kept.begin(), kept.end());
  for (const auto& [endpoint, value] : values_) {
    request.feeds.push_back(endpoint);
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
