#pragma once

#include <memory>
#include <vector>

#include "graph/graph_impl.h"
#include "graph/partition.h"
#include "graph/prune.h"
#include "runtime/plan.h"
#include "runtime/session_impl.h"
#include "runtime/settled.h"

namespace cohort::internal {

// One signature, compiled: a plan per device, and where feeds and fetches go.
struct CompiledRun : PreparedRun {
  struct Part {
    DeviceName device;
    std::shared_ptr<const Plan> plan;
    std::vector<size_t> feeds;  // positions in the request, in the plan's order
    std::vector<size_t> fetches;
    // Of the session that the run was compiled for.
    std::shared_ptr<SettledValues> settled = std::make_shared<SettledValues>();
  };
  std::vector<Part> parts;
  size_t num_fetches = 0;
};

// Compiles a graph of its own for one device.
std::shared_ptr<const Plan> compile_part(const Partition& part, StepOrder order);

// Cuts what the request needs by the nodes' devices, one for each node of the graph, and compiles
// the parts.
std::shared_ptr<const CompiledRun> compile_parts(const GraphImpl& graph,
                                                 const std::vector<DeviceName>& devices,
                                                 const RunRequest& request);

}  // namespace cohort::internal
