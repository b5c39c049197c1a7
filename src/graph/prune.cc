#include "graph/prune.h"

#include <set>

namespace cohort::internal {

std::vector<int> needed_nodes(const GraphImpl& graph, const RunRequest& request) {
  const std::set<Endpoint> fed(request.feeds.begin(), request.feeds.end());
  std::vector<bool> needed(static_cast<size_t>(graph.size()));
  std::vector<int> open;
  const auto need = [&](int id) {
    if (!needed[static_cast<size_t>(id)]) open.push_back(id);
    needed[static_cast<size_t>(id)] = true;
  };
  for (const Endpoint fetch : request.fetches) {
    if (!fed.contains(fetch)) need(fetch.node);
  }
  for (const int target : request.targets) need(target);
  while (!open.empty()) {
    const Node& node = graph.node(open.back());
    open.pop_back();
    for (const Endpoint input : node.inputs) {
      if (!fed.contains(input)) need(input.node);
    }
    for (const int before : node.controls) need(before);
  }
  std::vector<int> ids;
  for (size_t id = 0; id < needed.size(); ++id) {
    if (needed[id]) ids.push_back(static_cast<int>(id));
  }
  return ids;
}

}  // namespace cohort::internal
