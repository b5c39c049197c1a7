#include "graph/without_effects.h"

#include <algorithm>
#include <map>

#include "base/raise.h"
#include "graph/call_function.h"
#include "ops/all_ops.h"

namespace cohort::internal {
namespace {

using FunctionPtr = std::shared_ptr<const GraphFunction>;

bool is_handle(const GraphImpl& graph, NodeOutput node_output) {
  return graph.node(node_output.node).outputs[static_cast<size_t>(node_output.output)].dtype ==
         kResource;
}

// Adds the node's inputs that are `function`'s arguments, where the function changes what they
// stand for: the first `shared` of the node's inputs, and those from `first` on.
void add_changed(const Node& node, const GraphFunction& function, size_t first, size_t shared,
                 std::set<NodeOutput>& all) {
  for (const size_t argument : changed_arguments(function)) {
    all.insert(node.inputs[argument < shared ? argument : first + argument - shared]);
  }
}

std::set<NodeOutput> changed_in(const GraphImpl& body) {
  std::set<NodeOutput> all;
  for (int id = 0; id < body.size(); ++id) all.merge(changed_by(body, body.node(id)));
  return all;
}

// What the results are made of.
std::vector<bool> needed_in(const GraphFunction& function) {
  const GraphImpl& body = *function.body;
  std::vector<bool> needed(static_cast<size_t>(body.size()));
  for (const NodeOutput result : function.results) needed[static_cast<size_t>(result.node)] = true;
  for (int id = body.size(); id-- > 0;) {
    if (!needed[static_cast<size_t>(id)]) continue;
    for (const NodeOutput input : body.node(id).inputs) {
      needed[static_cast<size_t>(input.node)] = true;
    }
  }
  return needed;
}

// Calls the marked nodes, in the function that is being traced.
std::vector<Tensor> call_marked(const GraphFunction& function, const std::vector<bool>& marked,
                                std::span<const Tensor> given) {
  std::map<NodeOutput, Tensor> values;
  for (size_t i = 0; i < given.size(); ++i) values[function.arguments[i]] = given[i];
  for (int id = 0; id < function.body->size(); ++id) {
    const Node& node = function.body->node(id);
    if (!marked[static_cast<size_t>(id)] || node.op == &kArgument) continue;
    std::vector<Tensor> inputs;
    for (const NodeOutput input : node.inputs) inputs.push_back(values.at(input));
    const DeviceScope on(node.device.to_string());
    const std::vector<Tensor> outputs = apply_many(*node.op, inputs, node.attrs, node.site);
    for (size_t i = 0; i < outputs.size(); ++i) values[{id, static_cast<int>(i)}] = outputs[i];
  }
  std::vector<Tensor> results;
  for (const NodeOutput result : function.results) results.push_back(values.at(result));
  return results;
}

}  // namespace

void refuse_to_compute_again(std::string_view function) {
  raise(Code::Unimplemented,
        "[Gradient] '{}' of a cond() or while_loop() changes a variable, or takes an element of an "
        "iterator, that its results depend on; the gradient computes it again and would find "
        "another value. Use a GradientTape inside of it, or read, change and take outside",
        function);
}

std::shared_ptr<const GraphFunction> without_effects(const GraphFunction& function) {
  const std::set<NodeOutput> changed = changed_in(*function.body);
  if (changed.empty()) return closed(function);
  const std::vector<bool> needed = needed_in(function);
  for (int id = 0; id < function.body->size(); ++id) {
    if (!needed[static_cast<size_t>(id)]) continue;
    for (const NodeOutput input : function.body->node(id).inputs) {
      if (changed.contains(input)) refuse_to_compute_again(function.name);
    }
  }
  return closed(*trace(function.name, argument_specs(function), [&](std::span<const Tensor> given) {
    return call_marked(function, needed, given);
  }));
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
      if (is_handle(graph, input)) all.insert(input);
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
