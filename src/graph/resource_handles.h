#pragma once

#include "graph/graph_impl.h"

namespace cohort::internal {

// A handle node in the graph being built, and the name of the state that it stands for.
struct NamedHandle {
  Tensor handle;
  std::string state;
};

// Adds a node of `op`, which gives the handle of state that the run's device keeps under
// `shared_name`, or under the node's name when that is empty. `attrs` are the op's without
// container and shared_name. It has no control inputs, whatever guards are open. Throws
// FailedPrecondition when no graph is being built.
NamedHandle add_handle(const OpDef& op, std::string_view name, const std::string& shared_name,
                       Attrs attrs, Site site);

// A node that asks the state behind the handle for something, one for all calls: see
// GraphImpl::keep.
Tensor keep_question(const OpDef& op, const Tensor& handle, Site site);

// The device that node `id` asks for: its own request, or that of what it is colocated with.
DeviceName device_asked_for(const GraphImpl& graph, int id);
// The same without what it is colocated with.
DeviceName own_request(const GraphImpl& graph, int id);

}  // namespace cohort::internal
