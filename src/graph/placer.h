#pragma once

#include <string>
#include <vector>

#include "cohort/device.h"
#include "graph/graph_impl.h"

namespace cohort::internal {

struct PlacementOptions {
  std::vector<DeviceName> devices;  // full names
  DeviceName home;                  // where a node goes that asks for no place
  bool allow_soft_placement = false;
  // Added to the error when a node asks for a device of a job that does not exist: how to get one.
  std::string hint;
};

// Gives every node from `first` on a device: index i of the result is for node first + i. `placed`
// holds the devices of the nodes before.
//
// Nodes that must be together (colocation, handles of one resource) are placed together; what is
// asked for them is merged. Among the devices that match, a node goes to its home task's, then to
// the first in name order. A node without inputs follows its only consumers; shape, size and rank
// follow their input. Throws InvalidArgument naming the node, what it asked for and the
// available devices.
std::vector<DeviceName> place_nodes(const GraphImpl& graph, int first,
                                    const std::vector<DeviceName>& placed,
                                    const PlacementOptions& options);

// Places the nodes that `placed` does not have yet, and adds their devices to it. Returns a line
// for each if `lines_wanted`: "name: (Op): /job:.../device:CPU:0".
std::vector<std::string> place_new_nodes(const GraphImpl& graph, std::vector<DeviceName>& placed,
                                         const PlacementOptions& options, bool lines_wanted);

}  // namespace cohort::internal
