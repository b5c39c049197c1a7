#pragma once

#include <memory>

#include "graph/prune.h"

namespace cohort::internal {

// A graph, and a request for it.
struct FoldedGraph {
  std::shared_ptr<const GraphImpl> graph;
  RunRequest request;
};

// A graph that gives what `request` asks of `graph` with less work: what depends on constants alone
// is computed now, and of nodes that compute the same thing one is left. Nodes keep their names,
// devices and order. What has state, draws at random, is fed, or waits for other nodes stays as it
// is; so does a node whose kernel fails, so that the error comes when it runs.
FoldedGraph fold(std::shared_ptr<const GraphImpl> graph, const RunRequest& request);

}  // namespace cohort::internal
