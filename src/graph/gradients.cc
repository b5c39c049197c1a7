#include "graph/gradients.h"

#include "autodiff/backward.h"
#include "base/raise.h"
#include "cohort/graph.h"
#include "cohort/ops.h"
#include "ops/all_ops.h"
#include "ops/variable_cell.h"

namespace cohort {
namespace internal {
namespace {

// The tensors at which the gradient of a variable is collected: every read of the variable that the
// graph has so far, and its handle, for functions that read the variable themselves.
std::vector<Tensor> sources_of(const std::vector<OpCall>& calls, const Tensor& handle) {
  std::vector<Tensor> sources;
  for (const OpCall& call : calls) {
    if (call.op == &kReadVariable && TensorAccess::id(call.inputs[0]) == TensorAccess::id(handle)) {
      sources.push_back(call.outputs[0]);
    }
  }
  sources.push_back(handle);
  return sources;
}

// d(ys)/d(group) for each group of tensors, the sum over its members, given d(result)/d(y) in
// `seeds`: as new nodes of the graph whose calls these are. Undefined where no y depends on it.
Gradients group_gradients(std::vector<OpCall> calls, std::span<const Tensor> ys,
                          std::span<const Tensor> seeds,
                          const std::vector<std::vector<Tensor>>& groups) {
  std::vector<Tensor> flat;
  for (const auto& group : groups) flat.insert(flat.end(), group.begin(), group.end());
  const Gradients all = backward(std::move(calls), ys, seeds, flat);
  Gradients results;
  size_t next = 0;
  for (const auto& group : groups) {
    Gradient sum;
    for (size_t i = 0; i < group.size(); ++i) sum = add_gradients(sum, all[next++]);
    results.push_back(sum);
  }
  return results;
}

std::vector<Tensor> seeds_for(const std::vector<Tensor>& ys, const GradientOptions& options) {
  if (!options.output_gradients.empty() && options.output_gradients.size() != ys.size()) {
    raise(Code::InvalidArgument, "[Gradients] {} output gradients for {} targets",
          options.output_gradients.size(), ys.size());
  }
  if (!options.output_gradients.empty()) return options.output_gradients;
  std::vector<Tensor> seeds;
  for (const Tensor& y : ys) seeds.push_back(ones_like(y));
  return seeds;
}

std::vector<OpCall> calls_before(const std::vector<Tensor>& ys) {
  if (ys.empty()) raise(Code::InvalidArgument, "[Gradients] no target was given");
  return graph_of(ys[0])->calls();
}

Gradients gradients_of(std::vector<OpCall> calls, const std::vector<Tensor>& ys,
                       const std::vector<std::vector<Tensor>>& groups,
                       const GradientOptions& options) {
  const NameScope names("gradients");
  Gradients results = group_gradients(std::move(calls), ys, seeds_for(ys, options), groups);
  if (options.unconnected != Unconnected::Zero) return results;
  for (size_t i = 0; i < results.size(); ++i) {
    // The handle of a variable has no size; gradients() of variables uses the size of the variable.
    if (results[i].defined() || groups[i][0].dtype() == kResource) continue;
    results[i] = zeros_like(groups[i][0]);
  }
  return results;
}

using FunctionPtr = std::shared_ptr<const GraphFunction>;

// The first read, in the function or in those that it calls, of the variable whose handle is that
// argument.
std::optional<InnerRead> read_of_argument(const GraphFunction& function, size_t argument);

std::optional<InnerRead> read_in_branch(const Node& cond, size_t input) {
  if (input == 0) return std::nullopt;
  const auto& first = cond.attrs.get<FunctionPtr>("then_branch");
  const size_t num_first = first->arguments.size();
  if (input <= num_first) return read_of_argument(*first, input - 1);
  return read_of_argument(*cond.attrs.get<FunctionPtr>("else_branch"), input - 1 - num_first);
}

std::optional<InnerRead> read_in_loop(const Node& loop, size_t input) {
  const auto num_state = static_cast<size_t>(loop.attrs.integer("num_state"));
  const size_t first = loop.attrs.get<FunctionPtr>("condition")->arguments.size();
  if (input < first) return std::nullopt;
  return read_of_argument(*loop.attrs.get<FunctionPtr>("body"), input - first + num_state);
}

}  // namespace

std::optional<InnerRead> read_of_input(const Node& node, size_t input) {
  if (node.op == &kCond) return read_in_branch(node, input);
  if (node.op == &kWhile) return read_in_loop(node, input);
  return std::nullopt;
}

namespace {

std::optional<InnerRead> read_of_argument(const GraphFunction& function, size_t argument) {
  const NodeOutput handle = function.arguments[argument];
  for (int id = 0; id < function.body->size(); ++id) {
    const Node& node = function.body->node(id);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != handle) continue;
      if (node.op == &kReadVariable) {
        return InnerRead{function.body->symbol({id, 0}), node.attrs.flag("trainable")};
      }
      if (const auto found = read_of_input(node, i)) return found;
    }
  }
  return std::nullopt;
}

// Adds the inputs of the node that `function` changes. The first `shared` arguments of the function
// are the first inputs of the node; its other arguments are the inputs from `first` on.
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

// Marks the nodes that the results of the function depend on.
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

}  // namespace

void refuse_to_compute_again(std::string_view function) {
  raise(Code::Unimplemented,
        "[Gradient] '{}' of a cond() or while_loop() changes a variable, or takes an element of an "
        "iterator, that its results depend on; the gradient computes it again and would find "
        "another value. Use a GradientTape inside it, or read, change and take outside",
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
    return call_body(
        function, given,
        [](const Node& node, std::span<const Tensor> inputs) {
          return apply_many(*node.op, inputs, node.attrs, node.site);
        },
        [&](int id) { return needed[static_cast<size_t>(id)]; });
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

namespace {

std::vector<Tensor> select(std::span<const Tensor> tensors, const std::vector<size_t>& positions) {
  std::vector<Tensor> selected;
  for (const size_t position : positions) selected.push_back(tensors[position]);
  return selected;
}

}  // namespace

Specs gradient_specs(const GraphFunction& function) {
  Specs specs = argument_specs(function);
  for (size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].dtype != kResource) continue;
    if (const auto read = read_of_argument(function, i)) {
      specs[i] = {read->value.dtype(), read->value.shape()};
    }
  }
  return specs;
}

Tensor zero_gradient(const Spec& spec, const Tensor& argument) {
  if (argument.dtype() != kResource) return zeros_like(argument);
  if (spec.shape.is_fully_known()) return zeros(spec.shape, spec.dtype);
  raise(Code::Unimplemented,
        "[Gradient] a function of the graph reads a variable of shape {}, whose gradient needs a "
        "shape that is known; read the variable outside of it",
        spec.shape.to_string());
}

std::vector<size_t> floating(std::span<const Spec> specs) {
  std::vector<size_t> positions;
  for (size_t i = 0; i < specs.size(); ++i) {
    if (is_floating(specs[i].dtype)) positions.push_back(i);
  }
  return positions;
}

std::shared_ptr<const GraphFunction> gradient_of(const GraphFunction& function) {
  const Specs own = argument_specs(function);
  const Specs slopes = gradient_specs(function);
  const Specs results = result_specs(function);
  Specs arguments = own;
  for (const size_t i : floating(results)) arguments.push_back(results[i]);
  return trace(function.name + "_gradient", arguments, [&](std::span<const Tensor> given) {
    const std::span<const Tensor> inputs = given.first(own.size());
    const std::vector<Tensor> targets = select(call_inline(function, inputs), floating(results));
    std::vector<OpCall> calls = graph_of(given[0])->calls();
    std::vector<std::vector<Tensor>> sources;
    for (const size_t i : floating(slopes)) {
      const bool handle = own[i].dtype == kResource;
      sources.push_back(handle ? sources_of(calls, inputs[i]) : std::vector{inputs[i]});
    }
    // The path ends where a value is put into a variable.
    std::erase_if(calls, [](const OpCall& call) {
      return call.op->is_stateful() && call.op->gradient == nullptr;
    });
    const Gradients found =
        group_gradients(std::move(calls), targets, given.subspan(own.size()), sources);
    std::vector<Tensor> gradients;
    for (const size_t i : floating(slopes)) {
      const Gradient& gradient = found[gradients.size()];
      gradients.push_back(gradient.defined() ? gradient.dense()
                                             : zero_gradient(slopes[i], inputs[i]));
    }
    return gradients;
  });
}

}  // namespace internal

Gradients gradients(const std::vector<Tensor>& ys, const std::vector<Tensor>& xs,
                    const GradientOptions& options) {
  std::vector<std::vector<Tensor>> groups;
  for (const Tensor& x : xs) groups.push_back({x});
  return internal::gradients_of(internal::calls_before(ys), ys, groups, options);
}

Gradients gradients(const std::vector<Tensor>& ys, const std::vector<Variable>& xs,
                    const GradientOptions& options) {
  std::vector<internal::OpCall> calls = internal::calls_before(ys);
  std::vector<std::vector<Tensor>> groups;
  for (const Variable& x : xs) {
    groups.push_back(
        internal::sources_of(calls, internal::VariableAccess::impl(x)->handle().handle));
  }
  Gradients results = internal::gradients_of(std::move(calls), ys, groups, options);
  if (options.unconnected != Unconnected::Zero) return results;
  const Graph::Scope building(internal::graph_of(ys[0]));
  for (size_t i = 0; i < xs.size(); ++i) {
    const Shape shape = xs[i].shape();
    if (!results[i].defined() && shape.is_fully_known()) results[i] = zeros(shape, xs[i].dtype());
  }
  return results;
}

}  // namespace cohort
