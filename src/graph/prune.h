#pragma once

#include <vector>

#include "graph/graph_impl.h"

namespace cohort::internal {

// What one run gives to a graph and wants of it.
struct RunRequest {
  std::vector<Endpoint> feeds = {};
  std::vector<Endpoint> fetches = {};
  std::vector<int> targets = {};  // nodes to run for their effect
};

// Numbers of the nodes that fetches and targets need, stopping at feeds, in order of their making.
std::vector<int> needed_nodes(const GraphImpl& graph, const RunRequest& request);

}  // namespace cohort::internal
