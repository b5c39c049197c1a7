#include "graph/gradients.h"

#include "autodiff/backward.h"
#include "base/raise.h"
#include "base/site_scope.h"
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

std::vector<Tensor> seeds_for(const std::vector<Tensor>& ys, const GradientOptions& options) {
  if (!options.output_gradients.empty() && options.output_gradients.size() != ys.size()) {
    raise(Code::InvalidArgument,
          "[Gradients] needs one output gradient per target, got {} for {} targets",
          options.output_gradients.size(), ys.size());
  }
  if (!options.output_gradients.empty()) return options.output_gradients;
  std::vector<Tensor> seeds;
  for (const Tensor& y : ys) seeds.push_back(ones_like(y));
  return seeds;
}

std::vector<OpCall> calls_before(const std::vector<Tensor>& ys) {
  if (ys.empty()) raise(Code::InvalidArgument, "[Gradients] needs at least one target, got none");
  return graph_of(ys[0])->calls();
}

Gradients gradients_of(std::vector<OpCall> calls, const std::vector<Tensor>& ys,
                       const std::vector<std::vector<Tensor>>& groups,
                       const GradientOptions& options) {
  const NameScope names("gradients");
  Gradients results = backward(std::move(calls), ys, seeds_for(ys, options), groups);
  if (options.unconnected != Unconnected::Zero) return results;
  for (size_t i = 0; i < results.size(); ++i) {
    // The handle of a variable has no size; gradients() of variables uses the size of the variable.
    if (results[i].defined() || groups[i][0].dtype() == kResource) continue;
    results[i] = zeros_like(groups[i][0]);
  }
  return results;
}

// The first read, in the function or in those that it calls, of the variable whose handle is that
// argument.
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

std::optional<InnerRead> read_of_input(const Node& node, size_t input) {
  if (node.op == &kCond) return read_in_branch(node, input);
  if (node.op == &kWhile) return read_in_loop(node, input);
  return std::nullopt;
}

void refuse_to_compute_again(std::string_view function) {
  raise(Code::Unimplemented,
        "[Gradient] '{}' of a cond() or while_loop() changes a variable, or takes an element of an "
        "iterator, and its results depend on this; the gradient computes '{}' again and would find "
        "another value. Use a GradientTape inside the function, or read, change and take outside "
        "the function",
        function, function);
}

FunctionPtr without_effects(const GraphFunction& function) {
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
        "[Gradient] a function of the graph reads a variable of shape {}, but the gradient needs a "
        "known shape; read the variable outside the function",
        spec.shape.to_string());
}

std::vector<size_t> floating(std::span<const Spec> specs) {
  std::vector<size_t> positions;
  for (size_t i = 0; i < specs.size(); ++i) {
    if (is_floating(specs[i].dtype)) positions.push_back(i);
  }
  return positions;
}

FunctionPtr gradient_of(const GraphFunction& function) {
  const Specs own = argument_specs(function);
  const Specs slopes = gradient_specs(function);
  const Specs results = result_specs(function);
  Specs arguments = own;
  for (const size_t i : floating(results)) arguments.push_back(results[i]);
  return trace(function.name + "_gradient", arguments, [&](std::span<const Tensor> given) {
    const std::span<const Tensor> inputs = given.first(own.size());
    const std::vector<Tensor> targets =
        at_positions(call_inline(function, inputs), floating(results));
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
    const Gradients found = backward(std::move(calls), targets, given.subspan(own.size()), sources);
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
                    const GradientOptions& options, Site site) {
  const internal::SiteScope there(site);
  std::vector<std::vector<Tensor>> groups;
  for (const Tensor& x : xs) groups.push_back({x});
  return internal::gradients_of(internal::calls_before(ys), ys, groups, options);
}

Gradients gradients(const std::vector<Tensor>& ys, const std::vector<Variable>& xs,
                    const GradientOptions& options, Site site) {
  const internal::SiteScope there(site);
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

Gradients gradients(const std::vector<Tensor>& ys, std::initializer_list<Tensor> xs,
                    const GradientOptions& options, Site site) {
  return gradients(ys, std::vector<Tensor>(xs), options, site);
}

Gradients gradients(const std::vector<Tensor>& ys, std::initializer_list<Variable> xs,
                    const GradientOptions& options, Site site) {
  return gradients(ys, std::vector<Variable>(xs), options, site);
}

}  // namespace cohort
