#include "graph/call_function.h"

#include "base/raise.h"
#include "cohort/gradient.h"
#include "cohort/ops.h"
#include "ops/run_context.h"

namespace cohort::internal {

std::vector<Tensor> call_function(const GraphFunction& function, std::span<const Tensor> inputs,
                                  RunContext* run) {
  return run != nullptr ? run->call(function, inputs) : call_inline(function, inputs);
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

Specs specs_at(const GraphFunction& function, const std::vector<Endpoint>& endpoints) {
  Specs specs;
  for (const Endpoint endpoint : endpoints) {
    specs.push_back(
        function.body->node(endpoint.node).outputs[static_cast<size_t>(endpoint.output)]);
  }
  return specs;
}

std::vector<Tensor> select(std::span<const Tensor> tensors, const std::vector<size_t>& positions) {
  std::vector<Tensor> selected;
  for (const size_t position : positions) selected.push_back(tensors[position]);
  return selected;
}

}  // namespace

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
  const Specs results = result_specs(function);
  Specs arguments = own;
  for (const size_t i : floating(results)) arguments.push_back(results[i]);
  return trace(function.name + "_gradient", arguments, [&](std::span<const Tensor> given) {
    const std::span<const Tensor> inputs = given.first(own.size());
    const std::span<const Tensor> seeds = given.subspan(own.size());
    GradientTape tape;
    const std::vector<Tensor> sources = select(inputs, floating(own));
    for (const Tensor& source : sources) tape.watch(source);
    const std::vector<Tensor> targets = select(call_inline(function, inputs), floating(results));
    std::vector<Tensor> gradients;
    for (const Gradient& gradient : tape.gradient(targets, sources,
                                                  {.output_gradients = {seeds.begin(), seeds.end()},
                                                  .unconnected = Unconnected::Zero})) {
      gradients.push_back(gradient.dense());
    }
    return gradients;
  });
}

}  // namespace cohort::internal
