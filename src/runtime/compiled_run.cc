#include "runtime/compiled_run.h"

#include "base/raise.h"
#include "graph/fold_constants.h"
#include "graph/function_graph.h"
#include "ops/all_ops.h"

namespace cohort::internal {

CompiledRun::Part& CompiledRun::add(const Partition& part, const Device& device, StepOrder order) {
  for (int id = 0; id < part.graph->size(); ++id) {
    if (part.graph->node(id).op == &kRecv) note_arrival(part.graph->node(id));
  }
  may_wait |= has_trait(*part.graph, Trait::MayWait);
  Part& made = parts.emplace_back();
  made.device = &device;
  made.device_name = part.device.to_string();
  RunRequest local{.targets = part.targets};
  for (const auto& [position, node_output] : part.feeds) {
    made.feeds.push_back(position);
    local.feeds.push_back(node_output);
  }
  for (const auto& [position, node_output] : part.fetches) {
    made.fetches.push_back(position);
    local.fetches.push_back(node_output);
  }
  const FoldedGraph folded = fold(part.graph, local);
  made.plan = compile(folded.graph, folded.request, order);
  return made;
}

void CompiledRun::note_arrival(const Node& node) {
  const int64_t edge = node.attrs.integer("edge");
  if (edge < 0 || static_cast<size_t>(edge) >= arrival_places.size() ||
      arrival_places[static_cast<size_t>(edge)] != kNone) {
    raise(Code::InvalidArgument,
          "[Graph] node '{}' takes the tensor of edge {}, which does not exist, or another node "
          "takes it",
          node.name, edge);
  }
  arrival_places[static_cast<size_t>(edge)] = static_cast<int>(arrivals.size());
  arrivals.push_back({.part = parts.size(),
                      .dtype = node.outputs[0].dtype,
                      .shape = node.outputs[0].shape,
                      .tensor = node.attrs.get<std::string>("tensor"),
                      .sender = node.attrs.get<std::string>("sender")});
}

bool CompiledRun::is_quick() const {
  // A few times what it takes to wake another thread.
  constexpr int64_t kQuickNs = 300'000;
  const int64_t cost = cost_ns.load(std::memory_order_relaxed);
  return !may_wait && cost >= 0 && cost < kQuickNs;
}

namespace {

// The cut numbers edges from 0 on, and each has one Recv.
size_t count_edges(const std::vector<Partition>& parts) {
  size_t count = 0;
  for (const Partition& part : parts) {
    for (int id = 0; id < part.graph->size(); ++id) count += part.graph->node(id).op == &kRecv;
  }
  return count;
}

}  // namespace

std::shared_ptr<CompiledRun> compile_parts(const GraphImpl& graph,
                                           const std::vector<DeviceName>& devices,
                                           const RunRequest& request) {
  auto run = std::make_shared<CompiledRun>();
  run->num_fetches = request.fetches.size();
  const std::vector<Partition> parts = partition(graph, devices, request);
  run->arrival_places.assign(count_edges(parts), CompiledRun::kNone);
  const StepOrder order = parts.size() == 1 ? StepOrder::EffectsEarly : StepOrder::AsMade;
  for (const Partition& part : parts) {
    run->add(part, find_device(part.device.to_string()), order).settled =
        std::make_shared<SettledValues>();
  }
  return run;
}

}  // namespace cohort::internal
