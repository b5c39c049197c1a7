#pragma once

#include <set>
#include <vector>

#include "graph/graph_impl.h"

namespace cohort::internal {

// What one run gives to a graph and wants of it.
struct RunRequest {
  std::vector<NodeOutput> feeds = {};
  std::vector<NodeOutput> fetches = {};
  std::vector<int> targets = {};  // nodes to run for their effect
  std::vector<int> over = {};     // nodes that have run before, see PartialRunState: not again
  bool bfloat16_edges = false;    // float32 values go from device to device as bfloat16
};

// Nodes that nobody waits for: those that are over, and placeholders that are fed, which do not
// run.
std::set<int> not_waited_for(const GraphImpl& graph, const RunRequest& request);

// Numbers of the nodes that fetches and targets need, stopping at feeds, in order of their making.
// InvalidArgument when one takes a value, which is not fed, of a node that is over.
std::vector<int> needed_nodes(const GraphImpl& graph, const RunRequest& request);

}  // namespace cohort::internal
