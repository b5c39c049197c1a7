#pragma once

#include <memory>

#include "graph/run_request.h"

namespace cohort::internal {

// A graph, and a request for it.
struct FoldedGraph {
  std::shared_ptr<const GraphImpl> graph;
  RunRequest request;
};

// A graph that gives what `request` asks of `graph` with less work. Nodes that depend on constants
// alone are computed now, and of several nodes that compute the same value one is left. Nodes keep
// their names, devices and order. A node stays as it is if it has state, draws random numbers, is
// fed, or waits for other nodes; so does a node whose kernel fails, so that the error comes when
// the node runs.
FoldedGraph fold(std::shared_ptr<const GraphImpl> graph, const RunRequest& request);

}  // namespace cohort::internal
