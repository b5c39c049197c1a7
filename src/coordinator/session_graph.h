#pragma once

#include <atomic>
#include <map>

#include "cluster/remote_session.h"
#include "coordinator/group_updates.h"
#include "graph/graph_impl.h"

namespace cohort::internal {

using CallPtr = std::shared_ptr<const PreparedCall>;

// A session on another task and its graph, to which functions are added. Its user guards it.
struct SessionGraph {
  SessionGraph(const std::string& address, const SessionOptions& options)
      : graph(std::make_shared<GraphImpl>()),
        session(std::make_shared<RemoteSession>(graph, address, options)) {}

  CallPtr prepare(const std::vector<NodeOutput>& feeds, const std::vector<NodeOutput>& fetches,
                  std::chrono::milliseconds limit) const {
    return session->make_callable(graph->symbols(feeds), graph->symbols(fetches), limit);
  }
  // Has `device` forget the state of these names in the container. Returns whether it did so within
  // the limit.
  [[nodiscard]] bool forget(const std::vector<std::string>& names, const std::string& container,
                            const DeviceName& device, std::chrono::milliseconds limit);
  // Whether most of the graph, here and on the task, belongs to functions that are gone, or the
  // graph is spoiled. A graph never drops nodes, so the session is then replaced, which takes a few
  // milliseconds.
  bool is_worn_out() const;

  const std::shared_ptr<GraphImpl> graph;
  const std::shared_ptr<RemoteSession> session;
  int dead_nodes = 0;  // nodes of functions that are gone
  // A function was not added, and some of its nodes are in the graph. The task places all nodes of
  // a graph, so a node that has no place would fail all later functions, too.
  std::atomic<bool> is_spoiled = false;
  std::map<std::string, CallPtr> forget_calls;  // by container
};

// Adds a node with a name like `name` that runs on `device`, whatever scopes this thread has open.
// Throws the errors of the op's checks.
int add_node(GraphImpl& graph, std::string_view name, const OpDef& op,
             const std::vector<NodeOutput>& inputs, Attrs attrs, const DeviceName& device,
             std::vector<int> controls = {});

// The handle of the variable that `device` has under this name.
NodeOutput add_variable_handle(GraphImpl& graph, const std::string& container,
                               const std::string& name, const DeviceName& device);
// The handle of the accumulator on its parameter server.
NodeOutput add_accumulator_handle(GraphImpl& graph, const std::string& container,
                                  const RemoteAccumulator& accumulator);
// The handle of the iterator of this name. A new one iterates over the described dataset.
struct IteratorState {
  std::string container;
  std::string name;
  std::string dataset;
};
NodeOutput add_iterator_handle(GraphImpl& graph, const IteratorState& state,
                               const DeviceName& device);
NodeOutput add_placeholder(GraphImpl& graph, std::string_view name, const Spec& spec,
                           const DeviceName& device);
// An output to fetch that is there when all of `nodes` have run.
NodeOutput add_completion(GraphImpl& graph, const std::vector<int>& nodes,
                          const DeviceName& device);

}  // namespace cohort::internal
