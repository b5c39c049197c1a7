#pragma once

#include <map>
#include <memory>
#include <vector>

#include "graph/run_request.h"

namespace cohort::internal {

// The nodes of one device, as a separate graph. Recv and Send nodes exchange its values with other
// devices.
struct Partition {
  DeviceName device;
  std::shared_ptr<GraphImpl> graph;
  std::vector<int> targets;  // Send nodes, and nodes of the request
  // Where the run's feeds and fetches are; by position in the request, only those of this device.
  std::map<size_t, NodeOutput> feeds;
  std::map<size_t, NodeOutput> fetches;
};

// Cuts the nodes that the request needs into one part per device, in device order. One pair of Send
// and Recv serves all consumers of an output on a device; an edge that only orders carries an empty
// tensor. A feed goes to every device that uses it. With bfloat16_edges, float32 values become
// bfloat16 before their Send, rounded, and float32 again after their Recv.
std::vector<Partition> partition(const GraphImpl& graph, const std::vector<DeviceName>& devices,
                                 const RunRequest& request);

}  // namespace cohort::internal
