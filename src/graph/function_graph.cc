#include "graph/function_graph.h"

#include <unordered_map>

#include "base/raise.h"
#include "ops/all_ops.h"
#include "ops/element_source.h"
#include "ops/traced_step.h"

namespace cohort::internal {
namespace {

// Whether the op may exchange values with other replicas or workers, which must see all exchanges
// in one order: an op that is bound to no resource, and the next step of a distributed dataset, on
// whose end workers agree.
bool may_meet(const OpDef& op, bool bound) { return !bound || takes_element(op); }

struct OutputHash {
  size_t operator()(const NodeOutput& node_output) const {
    return std::hash<int64_t>()((int64_t{node_output.node} << 8) + node_output.output);
  }
};

}  // namespace

Tensor FunctionGraph::add_argument(DType dtype, const Shape& shape) {
  const Spec spec{dtype, shape};
  return append(kArgument, {}, {{"dtype", dtype}, {"shape", shape}}, {spec}, {})[0];
}

Tensor FunctionGraph::import(const Tensor& tensor) {
  if (owns(tensor)) return tensor;
  if (!tensor.is_symbolic() && tensor.dtype() != kResource) return GraphImpl::import(tensor);
  for (size_t i = 0; i < captured_.size(); ++i) {
    if (TensorAccess::id(captured_[i]) == TensorAccess::id(tensor)) {
      return symbol(capture_arguments_[i]);
    }
  }
  const Tensor argument = add_argument(tensor.dtype(), tensor.shape());
  captured_.push_back(tensor);
  capture_arguments_.push_back(node_output(argument));
  return argument;
}

std::vector<int> FunctionGraph::effects_before(const OpDef& op,
                                               std::span<const NodeOutput> inputs) {
  if (!op.is_stateful()) return {};
  std::vector<int> before;
  bool bound = false;
  for (const NodeOutput input : inputs) {
    if (!is_handle(input)) continue;
    bound = true;
    const ResourceUse& use = uses_[input];
    if (use.last_write >= 0) before.push_back(use.last_write);
    if (op.traits.has(Trait::HasEffect)) {
      before.insert(before.end(), use.reads_since.begin(), use.reads_since.end());
    }
  }
  if (may_meet(op, bound) && last_unbound_effect_ >= 0) before.push_back(last_unbound_effect_);
  return before;
}

void FunctionGraph::note_effect(int id) {
  const Node& added = node(id);
  if (!added.op->is_stateful()) return;
  const bool has_effect = added.op->traits.has(Trait::HasEffect);
  bool bound = false;
  for (const NodeOutput input : added.inputs) {
    if (!is_handle(input)) continue;
    bound = true;
    ResourceUse& use = uses_[input];
    if (has_effect) {
      use = {.last_write = id, .reads_since = {}};
    } else {
      use.reads_since.push_back(id);
    }
  }
  // If nodes waited for one that observes, the parts of replicas would not run side by side.
  const bool is_awaited = !added.op->traits.has(Trait::Observes);
  if (is_awaited && may_meet(*added.op, bound)) last_unbound_effect_ = id;
  if (has_effect) effects_.push_back(id);
}

FunctionPtr trace(std::string name, std::span<const Spec> arguments, const FunctionBody& body) {
  const auto graph = std::make_shared<FunctionGraph>();
  std::vector<Tensor> symbols;
  std::vector<Tensor> results;
  {
    const Graph::Scope building(graph);
    const TracedStepScope no_step;
    for (const Spec& spec : arguments)
      symbols.push_back(graph->add_argument(spec.dtype, spec.shape));
    results = body(symbols);
    for (Tensor& result : results) result = graph->import(result);
  }
  auto function = std::make_shared<GraphFunction>();
  function->name = std::move(name);
  for (const Tensor& symbol : symbols) function->arguments.push_back(graph->node_output(symbol));
  for (const NodeOutput argument : graph->capture_arguments())
    function->arguments.push_back(argument);
  for (const Tensor& result : results) function->results.push_back(graph->node_output(result));
  function->effects = graph->effects();
  function->captured = graph->captured();
  graph->finalize();
  function->body = graph;
  return function;
}

std::vector<Tensor> call_body(const GraphFunction& function, std::span<const Tensor> inputs,
                              const CallNode& call, const std::function<bool(int)>& is_called) {
  std::unordered_map<NodeOutput, Tensor, OutputHash> values;
  for (size_t i = 0; i < function.arguments.size(); ++i) {
    const bool own = i < inputs.size();
    values[function.arguments[i]] = own ? inputs[i] : function.captured[i - inputs.size()];
  }
  for (int id = 0; id < function.body->size(); ++id) {
    const Node& node = function.body->node(id);
    if (node.op == &kArgument || (is_called && !is_called(id))) continue;
    std::vector<Tensor> given;
    for (const NodeOutput input : node.inputs) given.push_back(values.at(input));
    const DeviceScope on(node.device.to_string());
    const std::vector<Tensor> outputs = call(node, given);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      values[{id, static_cast<int>(i)}] = outputs[i];
    }
  }
  std::vector<Tensor> results;
  for (const NodeOutput result : function.results) results.push_back(values.at(result));
  return results;
}

bool any_node(const GraphImpl& graph, const std::function<bool(const Node&)>& which) {
  for (int id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    if (which(node)) return true;
    for (const Attrs::Entry& entry : node.attrs.entries()) {
      const auto* function = std::get_if<FunctionPtr>(&entry.second);
      if (function != nullptr && *function && any_node(*(*function)->body, which)) return true;
    }
  }
  return false;
}

FunctionPtr closed(const GraphFunction& function) {
  auto result = std::make_shared<GraphFunction>();
  result->name = function.name;
  result->body = function.body;
  result->arguments = function.arguments;
  result->results = function.results;
  result->effects = function.effects;
  return result;
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

}  // namespace cohort::internal
