#pragma once

#include <functional>
#include <optional>

#include "coordinator/remote_variables.h"
#include "graph/function_graph.h"
#include "ops/element_source.h"

namespace cohort::internal {

// The device that keeps a result of an earlier function.
struct KeptPlace {
  DeviceName device;
  size_t output;  // the number of the result among those of the function

  friend bool operator==(const KeptPlace&, const KeptPlace&) = default;
};

// The graph of a session on another task, to which functions of this process are added.
struct Destination {
  GraphImpl& graph;
  DeviceName home;        // where nodes run that use no state
  std::string container;  // of the variables on the parameter servers
  // The handle of the iterator over `source` on that task. Empty where functions use no iterators.
  std::function<NodeOutput(const std::shared_ptr<const ElementSource>& source)> bind_iterator = {};
  // The handle of the task's own copy of a variable. Empty where functions use none.
  std::function<NodeOutput(const std::shared_ptr<const WorkerCell>& cell)> bind_variable = {};
  // Where the value of an argument is kept; the number of its call is fed then. nullopt for an
  // argument whose value is fed. Empty when all values are fed.
  std::function<std::optional<KeptPlace>(size_t argument)> kept = {};
  // The ID of a call, which its repetition has, too; see kIdempotentUpdate. A restore undoes the
  // changes on the parameter servers and gives their IDs a new number. It does not undo the changes
  // of the task's own state, so there is an ID for each. None when calls are never repeated.
  std::optional<NodeOutput> call_id = std::nullopt;
  std::optional<NodeOutput> own_call_id = std::nullopt;
};

// A function in the graph of a session.
struct LoweredFunction {
  std::vector<NodeOutput> feeds;    // one for each argument that is not a handle
  std::vector<NodeOutput> fetches;  // the results, then an output that says that the call is done
};

// Throws FailedPrecondition when an argument of a call is state that workers do not reach. Calls of
// one trace may differ in this. The message names the state.
void check_arguments(const GraphFunction& function, std::span<const Tensor> arguments);

// Throws FailedPrecondition when the function uses something of this process that cannot be
// serialized. The message names it.
void check_serializable(const GraphFunction& function, std::span<const Tensor> arguments);

// Adds the function's nodes to the graph. A node that uses a variable runs where the variable is,
// rows are gathered there, and all other nodes run at home. `arguments` are those of a call:
// handles among them are bound for all calls. Throws InvalidArgument for an operation on state of
// two tasks.
LoweredFunction lower_to_worker(const GraphFunction& function, std::span<const Tensor> arguments,
                                const Destination& destination);

}  // namespace cohort::internal
