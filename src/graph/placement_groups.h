#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cohort/device.h"
#include "graph/graph_impl.h"

namespace cohort::internal {

// The device types that have a kernel for a node.
struct DeviceTypes {
  uint8_t bits = 0;

  bool has(std::string_view type) const;
  std::string to_string() const;  // "GPU, CPU": the preferred ones first
};
// The preference for a device type; more is better.
int device_priority(std::string_view type);
// Tensors of strings live in host memory only.
DeviceTypes supported_types(const GraphImpl& graph, const Node& node);

// Nodes that must be in one place, and their merged requests.
struct PlacementGroup {
  DeviceName request = {};
  DeviceTypes types = {};  // that can run every member
  int size = 1;
  int assigned = -1;  // a member that has its device already; the group goes there
  // Members asked for different types or indices, and soft placement dropped the requests. Later
  // requests are dropped, too, so that the order of the nodes does not matter.
  bool any_type = false;
  bool any_index = false;

  // Adds the request of a member, or of another group.
  void hear(const DeviceName& more, Placement placement);
};

// Finds out which nodes must be placed together: consumers of a resource with its producer, and
// nodes with those that they are colocated with.
//
// A request of the producer of a resource is stronger than a request of its consumers: a consumer
// that asks for another place follows the resource. Any other clash throws InvalidArgument naming
// two nodes and the part of the name. With soft placement, device types and indices never clash,
// and a colocation that is not possible is left out with a warning.
class PlacementGroups {
 public:
  // Nodes before `first` are in `placed`; `graph` and `placed` are used as long as this lives.
  PlacementGroups(const GraphImpl& graph, int first, const std::vector<DeviceName>& placed,
                  Placement placement);

  const PlacementGroup& of(int id) { return groups_[static_cast<size_t>(root(id))]; }
  // In order; looks at every node.
  std::vector<int> members(int id);
  // "'w' (VarHandle, asks for '/job:ps', made at train.cc:7)"
  std::string describe(int id) const;

 private:
  int root(int id);
  PlacementGroup& group(int id) { return groups_[static_cast<size_t>(root(id))]; }
  void join(int a, int b, DeviceName request);

  void join_resource_edges();
  void merge_producers();
  void merge_consumers();
  void join_colocated();
  void colocate(int id, int other);

  // The node's own request, or its device if the node is placed already.
  DeviceName asked(int id) const;
  void add_request(int id, Placement placement);
  std::string_view clash(const PlacementGroup& a, const PlacementGroup& b) const;
  // A member of id's group that prevents the group from being where `request` is.
  int culprit(int id, const DeviceName& request);
  [[noreturn]] void raise_clash(int a, int b, std::string_view reason);

  const GraphImpl& graph_;
  const int first_;
  const int size_;
  const std::vector<DeviceName>& placed_;
  const Placement placement_;
  std::vector<int> parents_;
  std::vector<PlacementGroup> groups_;          // those of roots are valid
  std::vector<bool> heard_;                     // the node's request is part of its group's request
  std::unordered_map<int, DeviceName> strong_;  // by root: requests of the producers of resources
};

}  // namespace cohort::internal
