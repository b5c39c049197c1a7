#include "graph/function_graph.h"
#include "ops/all_ops.h"

namespace cohort::internal {
namespace {

// Adds the inputs of the node that `function` changes. The first `shared` arguments of the function
// are the first inputs of the node; its other arguments are the inputs from `first` on.
void add_changed(const Node& node, const GraphFunction& function, size_t first, size_t shared,
                 std::set<NodeOutput>& all) {
  for (const size_t argument : changed_arguments(function)) {
    all.insert(node.inputs[argument < shared ? argument : first + argument - shared]);
  }
}

}  // namespace

std::set<NodeOutput> changed_in(const GraphImpl& body) {
  std::set<NodeOutput> all;
  for (int id = 0; id < body.size(); ++id) all.merge(changed_by(body, body.node(id)));
  return all;
}

std::set<NodeOutput> changed_by(const GraphImpl& graph, const Node& node) {
  std::set<NodeOutput> all;
  if (node.op == &kCond) {
    const auto& then_branch = node.attrs.get<FunctionPtr>("then_branch");
    add_changed(node, *then_branch, 1, 0, all);
    add_changed(node, *node.attrs.get<FunctionPtr>("else_branch"),
                1 + then_branch->arguments.size(), 0, all);
  } else if (node.op == &kWhile) {
    const auto num_state = static_cast<size_t>(node.attrs.integer("num_state"));
    const auto& condition = node.attrs.get<FunctionPtr>("condition");
    add_changed(node, *condition, num_state, num_state, all);
    add_changed(node, *node.attrs.get<FunctionPtr>("body"), condition->arguments.size(), num_state,
                all);
  } else if (node.op->traits.has(Trait::HasEffect)) {
    for (const NodeOutput input : node.inputs) {
      if (graph.is_handle(input)) all.insert(input);
    }
  }
  return all;
}

std::set<size_t> changed_arguments(const GraphFunction& function) {
  const std::set<NodeOutput> changed = changed_in(*function.body);
  std::set<size_t> found;
  for (size_t i = 0; i < function.arguments.size(); ++i) {
    if (changed.contains(function.arguments[i])) found.insert(i);
  }
  return found;
}

}  // namespace cohort::internal
