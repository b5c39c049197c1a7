#pragma once

#include <memory>

#include "graph/run_request.h"

namespace cohort::internal {

// A graph and a request for its values.
struct FoldedGraph {
  std::shared_ptr<const GraphImpl> graph;
  RunRequest request;
};

// Returns a graph and a request that give the results of `request` with less work. Nodes that
// depend only on constants are computed now. Of several nodes that compute the same value, one
// remains. Nodes keep their names, devices and order. A node stays unchanged if it has state, draws
// random numbers, is fed, or waits for other nodes. So does a node whose kernel fails, so that the
// error occurs when the node runs.
FoldedGraph fold(std::shared_ptr<const GraphImpl> graph, const RunRequest& request);

}  // namespace cohort::internal
