#include "graph/handles.h"

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
  return {graph->append_named(name, op, {}, std::move(attrs), outputs, site)[0], state};
}

Tensor keep_question(const OpDef& op, const Tensor& handle, Site site) {
  const std::shared_ptr<GraphImpl> graph = graph_of(handle);
  return graph->keep(fmt::format("{} {}", op.name, graph->endpoint(handle).node), [&] {
    const SoleColocation together(handle);
    return apply(op, {handle}, {}, site);
  });
}

namespace {

// `seen` are nodes on the way here: names of later nodes may lead back.
DeviceName follow_requests(const GraphImpl& graph, int id, std::set<int>& seen) {
  const Node& node = graph.node(id);
  if (node.device != DeviceName() || !seen.insert(id).second) return node.device;
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

}  // namespace cohort::internal
