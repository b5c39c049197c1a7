#include "cohort/graph.h"

#include "autodiff/backward.h"
#include "base/raise.h"
#include "base/thread_context.h"
#include "cohort/ops.h"
#include "graph/graph_impl.h"

namespace cohort {
namespace internal {
namespace {

// One open scope: the graph, kept alive, and what op calls went to before.
struct OpenGraph {
  std::shared_ptr<GraphImpl> graph;
  GraphBuilder* outer;
};

struct OpenGraphs : ScopeStack<OpenGraph> {
  OpenGraphs() : ScopeStack("Graph") {}
};

OpenGraphs& open_graphs() {
  static constinit ContextSlot<OpenGraphs> slot;
  return slot.get();
}

uint64_t open_graph(std::shared_ptr<GraphImpl> graph) {
  GraphBuilder*& building = thread_dispatch().builder;
  GraphBuilder* const outer = std::exchange(building, graph.get());
  return open_graphs().open({std::move(graph), outer});
}

// Ends the scope by `end`, which takes it out or throws.
template <typename End>
void end_graph(uint64_t ticket, const End& end) {
  ScopeStack<OpenGraph>& graphs = open_graphs();
  const size_t place = graphs.find(ticket);
  const size_t count = graphs.size();
  GraphBuilder* const outer = place < count ? graphs[place].outer : nullptr;
  end();
  if (place == count) return;
  // A scope that was opened inside goes on; the scope around it is now the one around this scope.
  (place + 1 == count ? thread_dispatch().builder : graphs[place].outer) = outer;
}

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

Graph::Scope::Scope(std::shared_ptr<internal::GraphImpl> graph)
    : ticket_(internal::open_graph(std::move(graph))) {}
Graph::Scope::~Scope() {
  internal::end_graph(ticket_, [&] { internal::open_graphs().leave(ticket_); });
}
void Graph::Scope::close() {
  internal::end_graph(ticket_, [&] { internal::open_graphs().close(ticket_); });
}

bool building_graph() { return internal::thread_dispatch().builder != nullptr; }

Graph get_default_graph() {
  if (!building_graph()) {
    internal::raise(Code::FailedPrecondition,
                    "[Graph] this thread builds no graph; open one with graph.as_default()");
  }
  return internal::GraphAccess::make(internal::open_graphs().innermost().graph);
}

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
