#include "coordinator/once.h"

#include "graph/call_function.h"

namespace cohort::internal {
namespace {

// The update alone, as a function of its inputs.
std::shared_ptr<const GraphFunction> function_of(const Node& update, const GraphImpl& graph) {
  Specs inputs;
  for (const Endpoint input : update.inputs) {
    inputs.push_back(graph.node(input.node).outputs[static_cast<size_t>(input.output)]);
  }
  return closed(*trace("update", inputs, [&](std::span<const Tensor> symbols) {
    return apply_many(*update.op, symbols, update.attrs, update.site);
  }));
}

}  // namespace

Node once(const Node& update, GraphImpl& graph, Endpoint claim, int64_t number) {
  Node guarded = update;
  guarded.op = &find_op("Once");
  guarded.attrs = {{"update", function_of(update, graph)}, {"number", number}};
  guarded.inputs.insert(guarded.inputs.begin(), claim);
  return guarded;
}

}  // namespace cohort::internal
