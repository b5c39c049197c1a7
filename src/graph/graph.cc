#include "cohort/graph.h"

#include "base/raise.h"
#include "cohort/ops.h"
#include "graph/graph_impl.h"

namespace cohort {
namespace internal {
namespace {

NodeInfo info_of(const GraphImpl& graph, int id) {
  const Node& node = graph.node(id);
  NodeInfo info{.name = node.name,
                .op = std::string(node.op->name),
                .device = own_request(graph, id).to_string(),
                .inputs = {},
                .controls = {},
                .dtypes = {},
                .shapes = {},
                .site = node.site};
  for (const NodeOutput input : node.inputs) info.inputs.push_back(output_name(graph, input));
  for (const int before : node.controls) info.controls.push_back(graph.node(before).name);
  for (const Spec& output : node.outputs) {
    info.dtypes.push_back(output.dtype);
    info.shapes.push_back(output.shape);
  }
  return info;
}

}  // namespace
}  // namespace internal

Graph::Graph() : impl_(std::make_shared<internal::GraphImpl>()) {}

Graph::Scope Graph::as_default() { return Scope(impl_); }

Tensor Graph::tensor(std::string_view name) const {
  if (const auto found = impl_->find_output(name)) return impl_->symbol(*found);
  internal::raise(Code::NotFound, "[Graph] there is no tensor '{}' in a graph of {} nodes", name,
                  impl_->size());
}

std::vector<NodeInfo> Graph::nodes() const {
  std::vector<NodeInfo> infos;
  for (int id = 0; id < impl_->size(); ++id) {
    infos.push_back(internal::info_of(*impl_, id));
  }
  return infos;
}

size_t Graph::size() const { return static_cast<size_t>(impl_->size()); }
void Graph::finalize() { impl_->finalize(); }

}  // namespace cohort
