#pragma once

#include "coordinator/group_updates.h"
#include "graph/graph_impl.h"

namespace cohort::internal {

// Adds a node with a name like `name` that runs on `device`, whatever scopes this thread has open.
// Throws what the op's checks throw.
int add_node(GraphImpl& graph, std::string_view name, const OpDef& op,
             const std::vector<NodeOutput>& inputs, Attrs attrs, const DeviceName& device,
             std::vector<int> controls = {});

// The handle of the variable that `device` keeps under this name.
NodeOutput add_variable_handle(GraphImpl& graph, const std::string& container,
                               const std::string& name, const DeviceName& device);
// The handle of the accumulator that stands for itself here.
NodeOutput add_accumulator_handle(GraphImpl& graph, const std::string& container,
                                  const RemoteAccumulator& accumulator);
// The handle of the iterator of this name; made over the described dataset when there is none yet.
struct IteratorState {
  std::string container;
  std::string name;
  std::string dataset;
};
NodeOutput add_iterator_handle(GraphImpl& graph, const IteratorState& state,
                               const DeviceName& device);
// A result that `device` keeps of the call whose number `call` gives.
struct KeptState {
  std::string container;
  size_t output;
  Spec spec;
};
NodeOutput add_kept_result(GraphImpl& graph, NodeOutput call, const KeptState& state,
                           const DeviceName& device);
// Keeps results. `numbers` gives the number of their call, then those of calls to forget. Returns
// the node.
int add_keep(GraphImpl& graph, NodeOutput numbers, const std::vector<NodeOutput>& results,
             const std::string& container, const DeviceName& device);
// Forgets the state in the container whose names `names` gives. Returns the node.
int add_forget(GraphImpl& graph, NodeOutput names, const std::string& container,
               const DeviceName& device);
NodeOutput add_placeholder(GraphImpl& graph, std::string_view name, const Spec& spec,
                           const DeviceName& device);
// Something to fetch that is there when all of `nodes` have run.
NodeOutput add_completion(GraphImpl& graph, const std::vector<int>& nodes,
                          const DeviceName& device);

}  // namespace cohort::internal
