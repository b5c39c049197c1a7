#pragma once

#include <memory>
#include <vector>

#include "graph/graph_impl.h"
#include "graph/prune.h"
#include "runtime/plan.h"

namespace cohort::internal {

// One signature, compiled: a plan per device, and where feeds and fetches go.
struct CompiledRun {
  struct Part {
    DeviceName device;
    std::shared_ptr<const Plan> plan;
    std::vector<size_t> feeds;  // positions in the request, in the plan's order
    std::vector<size_t> fetches;
  };
  std::vector<Part> parts;
  size_t num_fetches = 0;
};

// Cuts what the request needs by the nodes' devices, one for each node of the graph, and compiles
// the parts.
std::shared_ptr<const CompiledRun> compile_parts(const GraphImpl& graph,
                                                 const std::vector<DeviceName>& devices,
                                                 const RunRequest& request);

}  // namespace cohort::internal
