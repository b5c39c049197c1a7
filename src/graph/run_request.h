#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "cohort/tensor.h"
#include "graph/graph_impl.h"

namespace cohort::internal {

// The feeds and fetches of one run of a graph.
struct RunRequest {
  std::vector<NodeOutput> feeds = {};
  std::vector<NodeOutput> fetches = {};
  std::vector<int> targets = {};  // nodes to run for their effect
  std::vector<int> over = {};     // nodes that ran before and do not run again, see PartialRunState
  bool bfloat16_edges = false;    // float32 values are sent between devices as bfloat16
};

// Nodes that other nodes do not wait for: nodes that are over, and fed placeholders, which do not
// run.
std::set<int> not_waited_for(const GraphImpl& graph, const RunRequest& request);

// Numbers of the nodes that fetches and targets need, stopping at feeds, in order of their
// creation. Throws InvalidArgument if a needed value is of a node that is over, unless the value is
// fed.
std::vector<int> needed_nodes(const GraphImpl& graph, const RunRequest& request);

// Runs fetches by name: `run(tensors)` gets the tensors as a list, and its results get the names.
template <typename Run>
std::map<std::string, Tensor> run_by_name(const std::map<std::string, Tensor>& fetches,
                                          const Run& run) {
  std::vector<Tensor> tensors;
  for (const auto& [name, fetch] : fetches) tensors.push_back(fetch);
  const std::vector<Tensor> values = run(tensors);
  std::map<std::string, Tensor> results;
  size_t next = 0;
  for (const auto& [name, fetch] : fetches) results[name] = values[next++];
  return results;
}

}  // namespace cohort::internal
