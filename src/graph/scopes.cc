#include "graph/scopes.h"

#include "base/raise.h"
#include "cohort/graph.h"
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

}  // namespace

BuildScopes& build_scopes() {
  static constinit ContextSlot<BuildScopes> slot;
  return slot.get();
}

std::vector<Tensor> open_controls() {
  const ScopeStack<ControlEntry>& open = build_scopes().controls;
  std::vector<Tensor> all;
  for (size_t i = 0; i < open.size(); ++i) {
    if (open[i].alone) all.clear();
    all.insert(all.end(), open[i].before.begin(), open[i].before.end());
  }
  return all;
}

std::string name_prefix() {
  const BuildScopes& scopes = build_scopes();
  return scopes.name_prefixes.empty() ? std::string() : scopes.name_prefixes.innermost();
}

std::string current_container() {
  const BuildScopes& scopes = build_scopes();
  const bool named = !scopes.containers.empty() && !scopes.containers.innermost().empty();
  return named ? scopes.containers.innermost() : kDefaultContainer;
}

namespace {

// "outer/inner/", made unique in the graph being built so that two layers of one name stay apart.
std::string prefix_for(std::string_view name) {
  if (name.empty()) return "";
  const std::string full = name_prefix() + std::string(name);
  if (!is_node_name(full)) {
    raise(Code::InvalidArgument,
          "[NameScope] '{}' is not a name; use letters, digits and _ . - / after a first letter, "
          "digit or dot",
          full);
  }
  auto* graph = dynamic_cast<GraphImpl*>(thread_dispatch().builder);
  return (graph != nullptr ? graph->unique_name(full) : full) + "/";
}

std::string checked_container(std::string_view name) {
  if (!name.empty() && !is_node_name(std::string(name))) {
    raise(Code::InvalidArgument,
          "[Container] '{}' is not a name; use letters, digits and _ . - / after a first letter, "
          "digit or dot",
          name);
  }
  return std::string(name);
}

const Tensor& checked_symbol(const Tensor& tensor) {
  graph_of(tensor);  // throws unless it is a symbol
  return tensor;
}

// How the scopes of one of the stacks end.
template <auto Stack>
constexpr ScopeKind scope_kind = {
    .close = [](uint64_t& ticket) { (build_scopes().*Stack).close(ticket); },
    .leave = [](uint64_t ticket) { (build_scopes().*Stack).leave(ticket); }};

constexpr ScopeKind kGraphScopes = {
    .close = [](uint64_t& ticket) { end_graph(ticket, [&] { open_graphs().close(ticket); }); },
    .leave = [](uint64_t ticket) { end_graph(ticket, [&] { open_graphs().leave(ticket); }); }};

}  // namespace
}  // namespace internal

Graph::Scope::Scope(std::shared_ptr<internal::GraphImpl> graph)
    : ThreadScope(internal::kGraphScopes, internal::open_graph(std::move(graph))) {}

bool building_graph() { return internal::thread_dispatch().builder != nullptr; }

Graph get_default_graph() {
  if (!building_graph()) {
    internal::raise(Code::FailedPrecondition,
                    "[Graph] this thread builds no graph; open one with graph.as_default()");
  }
  return internal::GraphAccess::make(internal::open_graphs().innermost().graph);
}

using internal::build_scopes;
using internal::BuildScopes;

NameScope::NameScope(std::string_view name)
    : ThreadScope(internal::scope_kind<&BuildScopes::name_prefixes>,
                  build_scopes().name_prefixes.open(internal::prefix_for(name))) {}

ControlDependencies::ControlDependencies(const std::vector<Tensor>& before)
    : ThreadScope(internal::scope_kind<&BuildScopes::controls>,
                  build_scopes().controls.open({before})) {}

Colocation::Colocation(const Tensor& tensor)
    : ThreadScope(internal::scope_kind<&BuildScopes::colocations>,
                  build_scopes().colocations.open({internal::checked_symbol(tensor)})) {}

Container::Container(std::string_view name)
    : ThreadScope(internal::scope_kind<&BuildScopes::containers>,
                  build_scopes().containers.open(internal::checked_container(name))) {}

}  // namespace cohort
