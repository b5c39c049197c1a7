#include "graph/handles.h"

#include "graph/scopes.h"

namespace cohort::internal {

NamedHandle add_handle(const OpDef& op, std::string_view name, const std::string& shared_name,
                       Attrs attrs, Site site) {
  const std::shared_ptr<GraphImpl> graph = GraphAccess::impl(get_default_graph());
  const std::string state =
      shared_name.empty() ? graph->next_name(name_prefix() + std::string(name)) : shared_name;
  attrs.set("container", std::string("localhost"));
  attrs.set("shared_name", state);
  const Specs outputs = op.infer({op.name, {}, attrs});
  return {graph->append_named(name, op, {}, std::move(attrs), outputs, site)[0], state};
}

}  // namespace cohort::internal
