#include "graph/scopes.h"

#include "base/raise.h"
#include "cohort/graph.h"
#include "graph/graph_impl.h"

namespace cohort {
namespace internal {

BuildScopes& build_scopes() {
  thread_local BuildScopes scopes;
  return scopes;
}

std::string name_prefix() {
  const BuildScopes& scopes = build_scopes();
  return scopes.name_prefixes.empty() ? std::string() : scopes.name_prefixes.back();
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

}  // namespace
}  // namespace internal

NameScope::NameScope(std::string_view name) {
  internal::build_scopes().name_prefixes.push_back(internal::prefix_for(name));
}
NameScope::~NameScope() { internal::build_scopes().name_prefixes.pop_back(); }

ControlDependencies::ControlDependencies(const std::vector<Tensor>& before) {
  internal::build_scopes().controls.push_back(before);
}
ControlDependencies::~ControlDependencies() { internal::build_scopes().controls.pop_back(); }

Colocation::Colocation(const Tensor& tensor) {
  internal::graph_of(tensor);  // throws unless it is a symbol
  internal::build_scopes().colocations.push_back(tensor);
}
Colocation::~Colocation() { internal::build_scopes().colocations.pop_back(); }

}  // namespace cohort
