#include "runtime/compiled_run.h"

#include "graph/fold.h"
#include "graph/partition.h"

namespace cohort::internal {
namespace {

CompiledRun::Part compile_part(const Partition& part, StepOrder order) {
  CompiledRun::Part compiled{.device = part.device, .plan = nullptr, .feeds = {}, .fetches = {}};
  RunRequest local;
  for (const auto& [position, endpoint] : part.feeds) {
    compiled.feeds.push_back(position);
    local.feeds.push_back(endpoint);
  }
  for (const auto& [position, endpoint] : part.fetches) {
    compiled.fetches.push_back(position);
    local.fetches.push_back(endpoint);
  }
  local.targets = part.targets;
  const FoldedGraph folded = fold(part.graph, local);
  compiled.plan = compile(folded.graph, folded.request, order);
  return compiled;
}

}  // namespace

std::shared_ptr<const CompiledRun> compile_parts(const GraphImpl& graph,
                                                 const std::vector<DeviceName>& devices,
                                                 const RunRequest& request) {
  auto run = std::make_shared<CompiledRun>();
  run->num_fetches = request.fetches.size();
  const std::vector<Partition> parts = partition(graph, devices, request);
  const StepOrder order = parts.size() == 1 ? StepOrder::EffectsEarly : StepOrder::AsMade;
  for (const Partition& part : parts) run->parts.push_back(compile_part(part, order));
  return run;
}

}  // namespace cohort::internal
