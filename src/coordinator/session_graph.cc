#include "coordinator/session_graph.h"

#include "base/log.h"
#include "ops/all_ops.h"

namespace cohort::internal {

bool SessionGraph::forget(const std::vector<std::string>& names, const std::string& container,
                          const DeviceName& device, std::chrono::milliseconds limit) {
  if (names.empty()) return true;
  const int before = graph->size();
  const Status status = capture_status([&] {
    CallPtr& call = forget_calls[container];
    if (!call) {
      const NodeOutput given =
          add_placeholder(*graph, "names", {kString, Shape{Shape::kUnknownDim}}, device);
      const int node = add_node(*graph, "ForgetState", kForgetState, {given},
                                {{"container", container}}, device);
      call = prepare({given}, {add_completion(*graph, {node}, device)}, limit);
    }
    session->run_callable(*call, {Tensor::from(names)}, {.timeout = limit});
  });
  if (!status.ok()) {
    if (!forget_calls[container] && graph->size() > before) is_spoiled = true;
    log_debug("[Coordinator] {} has not released {} variables or iterators: {}",
              device.split().first, names.size(), status.message);
  }
  return status.ok();
}

bool SessionGraph::is_worn_out() const {
  constexpr int kMaxDeadNodes = 500;
  return is_spoiled || (dead_nodes > kMaxDeadNodes && dead_nodes > graph->size() / 2);
}

int add_node(GraphImpl& graph, std::string_view name, const OpDef& op,
             const std::vector<NodeOutput>& inputs, Attrs attrs, const DeviceName& device,
             std::vector<int> controls) {
  Specs outputs = op.infer({op.name, graph.symbols(inputs), attrs});
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
