#pragma once

#include <functional>
#include <optional>

#include "coordinator/remote_cell.h"
#include "graph/function_graph.h"
#include "ops/element_source.h"

namespace cohort::internal {

// Where a result of an earlier function is kept.
struct KeptPlace {
  DeviceName device;
  size_t output;  // which result of that function it is

  friend bool operator==(const KeptPlace&, const KeptPlace&) = default;
};

// The graph of a session on another task, which functions of this process become part of.
struct Destination {
  GraphImpl& graph;
  DeviceName home;        // where nodes run that are bound to no state
  std::string container;  // of the variables on the parameter servers
  // The handle of the iterator that stands for `source` there. Empty where there are none.
  std::function<NodeOutput(const std::shared_ptr<const ElementSource>& source)> bind_iterator = {};
  // The handle of that task's own copy of a variable. Empty as above.
  std::function<NodeOutput(const std::shared_ptr<const WorkerCell>& cell)> bind_variable = {};
  // Where the value of an argument is, whose number is fed then; nullopt when it is fed itself.
  // Empty when all are.
  std::function<std::optional<KeptPlace>(size_t argument)> kept = {};
  // What tells a call from its repetition, see kOnce: for the parameter servers, where a restore
  // undoes what calls have changed, and for that task's own state, where none does. None when calls
  // are never repeated.
  std::optional<NodeOutput> claim = std::nullopt;
  std::optional<NodeOutput> own_claim = std::nullopt;
};

// A function in the graph of a session.
struct ShippedFunction {
  std::vector<NodeOutput> feeds;    // one for each argument that is a tensor, or a kept result
  std::vector<NodeOutput> fetches;  // the results, then what tells that it is done
};

// Throws FailedPrecondition, naming what it is, when the function uses something of this process
// that cannot travel.
void check_serializable(const GraphFunction& function, std::span<const Tensor> arguments);

// Adds the function's nodes. What uses a variable runs where the variable is, rows are gathered
// there, and everything else runs at home. `arguments` are those of a call: handles among them are
// bound once and for all. Throws InvalidArgument for an operation on state of two tasks.
ShippedFunction ship(const GraphFunction& function, std::span<const Tensor> arguments,
                     const Destination& destination);

}  // namespace cohort::internal
