#include "runtime/compiled_run.h"

#include "graph/fold.h"

namespace cohort::internal {

std::shared_ptr<const Plan> compile_part(const Partition& part, StepOrder order) {
  RunRequest local{.targets = part.targets};
  for (const auto& [position, node_output] : part.feeds) local.feeds.push_back(node_output);
  for (const auto& [position, node_output] : part.fetches) local.fetches.push_back(node_output);
  const FoldedGraph folded = fold(part.graph, local);
  return compile(folded.graph, folded.request, order);
}

std::shared_ptr<const CompiledRun> compile_parts(const GraphImpl& graph,
                                                 const std::vector<DeviceName>& devices,
                                                 const RunRequest& request) {
  auto run = std::make_shared<CompiledRun>();
  run->num_fetches = request.fetches.size();
  const std::vector<Partition> parts = partition(graph, devices, request);
  const StepOrder order = parts.size() == 1 ? StepOrder::EffectsEarly : StepOrder::AsMade;
  for (const Partition& part : parts) {
    CompiledRun::Part& made = run->parts.emplace_back();
    made.device = part.device;
    made.plan = compile_part(part, order);
    for (const auto& [position, node_output] : part.feeds) made.feeds.push_back(position);
    for (const auto& [position, node_output] : part.fetches) made.fetches.push_back(position);
  }
  return run;
}

}  // namespace cohort::internal
