#include "graph/resource_handles.h"

#include <fmt/format.h>

#include <set>

#include "graph/scopes.h"

namespace cohort::internal {

NamedHandle add_handle(const OpDef& op, std::string_view name, const std::string& shared_name,
                       Attrs attrs, Site site) {
  const std::shared_ptr<GraphImpl> graph = GraphAccess::impl(get_default_graph());
  const std::string state =
      shared_name.empty() ? graph->next_name(name_prefix() + std::string(name)) : shared_name;
  attrs.set("container", current_container());
  attrs.set("shared_name", state);
  const Specs outputs = op.infer({op.name, {}, attrs});
  // State exists before the nodes that the open guards name, so its users need not wait for them.
  const NoControlDependencies at_once;
  return {graph->append_named(name, op, {}, std::move(attrs), outputs, site)[0], state};
}

Tensor keep_question(const OpDef& op, const Tensor& handle, Site site) {
  const std::shared_ptr<GraphImpl> graph = graph_of(handle);
  return graph->keep(fmt::format("{} {}", op.name, graph->node_output(handle).node), [&] {
    const SoleColocation together(handle);
    return apply(op, {handle}, {}, site);
  });
}

namespace {

// `seen` are the nodes that led here: names of later nodes may lead back.
DeviceName follow_requests(const GraphImpl& graph, int id, std::set<int>& seen) {
  const Node& node = graph.node(id);
  if (!seen.insert(id).second) return node.device;
  if (graph.follows_first_variable(id)) {
    const int first = graph.first_variable();
    return first < 0 ? node.device : node.device.filled_from(follow_requests(graph, first, seen));
  }
  if (node.device != DeviceName()) return node.device;
  for (const std::string& name : node.colocated_with) {
    const int neighbour = graph.find(name);
    if (neighbour < 0) continue;
    const DeviceName found = follow_requests(graph, neighbour, seen);
    if (found != DeviceName()) return found;
  }
  return {};
}

}  // namespace

DeviceName device_asked_for(const GraphImpl& graph, int id) {
  std::set<int> seen;
  return follow_requests(graph, id, seen);
}

DeviceName own_request(const GraphImpl& graph, int id) {
  return graph.follows_first_variable(id) ? device_asked_for(graph, id) : graph.node(id).device;
}

}  // namespace cohort::internal
