#include "graph/call_function.h"

#include "base/raise.h"
#include "cohort/ops.h"
#include "graph/gradients.h"
#include "graph/inner_reads.h"
#include "ops/run_context.h"

namespace cohort::internal {

std::vector<Tensor> call_function(const GraphFunction& function, std::span<const Tensor> inputs,
                                  RunContext* run) {
  return run != nullptr ? run->call(function, inputs) : call_inline(function, inputs);
}

std::vector<Tensor> own_results(std::vector<Tensor> results) {
  if (thread_dispatch().recorder == nullptr) return results;
  for (Tensor& result : results) {
    if (result.dtype() != kResource) result = identity(result);
  }
  return results;
}

std::shared_ptr<const GraphFunction> closed(const GraphFunction& function) {
  auto result = std::make_shared<GraphFunction>();
  result->name = function.name;
  result->body = function.body;
  result->arguments = function.arguments;
  result->results = function.results;
  result->effects = function.effects;
  return result;
}

namespace {

Specs specs_at(const GraphFunction& function, const std::vector<NodeOutput>& node_outputs) {
  Specs specs;
  for (const NodeOutput node_output : node_outputs) {
    specs.push_back(
        function.body->node(node_output.node).outputs[static_cast<size_t>(node_output.output)]);
  }
  return specs;
}

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

Specs result_specs(const GraphFunction& function) { return specs_at(function, function.results); }
Specs argument_specs(const GraphFunction& function) {
  return specs_at(function, function.arguments);
}

void require_arguments(std::string_view op, const GraphFunction& function,
                       std::span<const Tensor> inputs) {
  const Specs arguments = argument_specs(function);
  if (arguments.size() != inputs.size()) {
    raise(Code::InvalidArgument, "[{}] function '{}' takes {} tensors, got {}", op, function.name,
          arguments.size(), inputs.size());
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].dtype == inputs[i].dtype()) continue;
    raise(Code::InvalidArgument, "[{}] argument {} of function '{}' is {}, got {}", op, i,
          function.name, to_string(arguments[i].dtype), to_string(inputs[i].dtype()));
  }
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
    // The way ends where a value is put into a variable.
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

}  // namespace cohort::internal
