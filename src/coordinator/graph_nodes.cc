#include "coordinator/graph_nodes.h"

#include "ops/all_ops.h"

namespace cohort::internal {

int add_node(GraphImpl& graph, std::string_view name, const OpDef& op,
             const std::vector<NodeOutput>& inputs, Attrs attrs, const DeviceName& device,
             std::vector<int> controls) {
  std::vector<Tensor> symbols;
  for (const NodeOutput input : inputs) symbols.push_back(graph.symbol(input));
  Specs outputs = op.infer({op.name, symbols, attrs});
  return graph.add({.name = graph.unique_name(name),
                    .op = &op,
                    .attrs = std::move(attrs),
                    .inputs = inputs,
                    .controls = std::move(controls),
                    .device = device,
                    .outputs = std::move(outputs)});
}

NodeOutput add_variable_handle(GraphImpl& graph, const std::string& container,
                               const std::string& name, const DeviceName& device) {
  return {add_node(graph, "VariableHandle", kVariableHandle, {},
                   {{"container", container}, {"shared_name", name}}, device)};
}

NodeOutput add_accumulator_handle(GraphImpl& graph, const std::string& container,
                                  const RemoteAccumulator& accumulator) {
  return {add_node(graph, "AccumulatorHandle", kAccumulatorHandle, {},
                   {{"dtype", accumulator.dtype()},
                    {"shape", accumulator.shape()},
                    {"mean", true},
                    {"sparse", accumulator.sparse()},
                    {"container", gathering_container(container)},
                    {"shared_name", accumulator.name()}},
                   accumulator.device())};
}

NodeOutput add_iterator_handle(GraphImpl& graph, const IteratorState& state,
                               const DeviceName& device) {
  return {add_node(graph, "IteratorHandle", kIteratorHandle, {},
                   {{"dataset", make_strings({state.dataset}, {})},
                    {"container", state.container},
                    {"shared_name", state.name}},
                   device)};
}

NodeOutput add_kept_result(GraphImpl& graph, NodeOutput call, const KeptState& state,
                           const DeviceName& device) {
  return {add_node(graph, "KeptResult", kKeptResult, {call},
                   {{"container", state.container},
                    {"output", static_cast<int64_t>(state.output)},
                    {"dtype", state.spec.dtype},
                    {"shape", state.spec.shape}},
                   device)};
}

int add_keep(GraphImpl& graph, NodeOutput numbers, const std::vector<NodeOutput>& results,
             const std::string& container, const DeviceName& device) {
  std::vector<NodeOutput> inputs{numbers};
  inputs.insert(inputs.end(), results.begin(), results.end());
  return add_node(graph, "KeepResults", kKeepResults, inputs, {{"container", container}}, device);
}

int add_forget(GraphImpl& graph, NodeOutput names, const std::string& container,
               const DeviceName& device) {
  return add_node(graph, "ForgetState", kForgetState, {names}, {{"container", container}}, device);
}

NodeOutput add_placeholder(GraphImpl& graph, std::string_view name, const Spec& spec,
                           const DeviceName& device) {
  return {add_node(graph, name, kPlaceholder, {}, {{"dtype", spec.dtype}, {"shape", spec.shape}},
                   device)};
}

NodeOutput add_completion(GraphImpl& graph, const std::vector<int>& nodes,
                          const DeviceName& device) {
  return {add_node(graph, "Done", kGroup, {}, {}, device, nodes)};
}

}  // namespace cohort::internal
