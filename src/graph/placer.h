#pragma once

#include <string>
#include <vector>

#include "cohort/device.h"
#include "graph/graph_impl.h"

namespace cohort::internal {

// The part of a name, or of a pattern, that names the task.
inline DeviceName task_part(const DeviceName& name) {
  return {.job = name.job, .replica = name.replica, .task = name.task, .type = {}, .index = {}};
}

struct PlacementOptions {
  std::vector<DeviceName> devices;  // full names
  DeviceName home;                  // for a node that requests no place
  bool allow_soft_placement = false;
  // Completes the error if a node requests a device of a job that does not exist: how to get it.
  std::string hint;
};

// Assigns a device to every node from `first` on: index i of the result is for node first + i.
// `placed` holds the devices of the nodes before.
//
// Nodes that must be together (colocation, handles of one resource) are placed together, and their
// requests are merged. Among the devices that match, a node goes to a device of its home task,
// otherwise to the first in name order. A node without inputs follows its only consumers; shape,
// size and rank follow their input. Throws InvalidArgument naming the node, its request and the
// available devices.
std::vector<DeviceName> place_nodes(const GraphImpl& graph, int first,
                                    const std::vector<DeviceName>& placed,
                                    const PlacementOptions& options);

// Places the nodes that `placed` does not have yet, and adds their devices to it. Returns a line
// for each if `lines_wanted`: "name: (Op): /job:.../device:CPU:0".
std::vector<std::string> place_new_nodes(const GraphImpl& graph, std::vector<DeviceName>& placed,
                                         const PlacementOptions& options, bool lines_wanted);

}  // namespace cohort::internal
