#include "graph/run_request.h"

#include "base/raise.h"

namespace cohort::internal {

std::set<int> not_waited_for(const GraphImpl& graph, const RunRequest& request) {
  std::set<int> nodes(request.over.begin(), request.over.end());
  for (const NodeOutput feed : request.feeds) {
    // Other nodes that are fed may be there for their effect, or for that of what they take.
    if (graph.node(feed.node).op->traits.has(Trait::Placeholder)) nodes.insert(feed.node);
  }
  return nodes;
}

std::vector<int> needed_nodes(const GraphImpl& graph, const RunRequest& request) {
  const std::set<NodeOutput> fed(request.feeds.begin(), request.feeds.end());
  const std::set<int> over(request.over.begin(), request.over.end());
  const std::set<int> ignored = not_waited_for(graph, request);
  std::vector<bool> needed(static_cast<size_t>(graph.size()));
  std::vector<int> open;
  const auto need = [&](int id) {
    if (!needed[static_cast<size_t>(id)]) open.push_back(id);
    needed[static_cast<size_t>(id)] = true;
  };
  const auto need_value = [&](NodeOutput of) {
    if (fed.contains(of)) return;
    if (over.contains(of.node)) {
      raise(Code::InvalidArgument, "[Session] '{}' has been computed before, and is not fed",
            output_name(graph, of));
    }
    need(of.node);
  };
  for (const NodeOutput fetch : request.fetches) need_value(fetch);
  for (const int target : request.targets) need(target);
  while (!open.empty()) {
    const Node& node = graph.node(open.back());
    open.pop_back();
    for (const NodeOutput input : node.inputs) need_value(input);
    for (const int before : node.controls) {
      if (!ignored.contains(before)) need(before);
    }
  }
  std::vector<int> ids;
  for (size_t id = 0; id < needed.size(); ++id) {
    if (needed[id]) ids.push_back(static_cast<int>(id));
  }
  return ids;
}

}  // namespace cohort::internal
