#pragma once

#include <optional>

#include "graph/graph_impl.h"
#include "train/single_variable.h"

namespace cohort::internal {

// What is known of a variable before it has a place: what a device function may want to know.
struct UnplacedVariable {
  std::optional<DType> dtype = std::nullopt;
  Shape shape = Shape::unknown();
};
// The variable whose handle this thread is adding to a graph; nothing is known when there is none.
const UnplacedVariable& variable_being_placed();

// Whether a variable that this thread makes is a node of a graph that sessions run.
bool builds_session_graph();

// Lets a variable of a graph that all workers share go where the first variable of its graph goes,
// made before it or after, unless it asks for a job itself. Without a task of its own it would be
// another variable in each worker, and the chief initialises only one of them.
void follow_first_variable(const Variable& variable);

// A variable that is a node of a graph.
class GraphVariable : public SingleVariable {
 public:
  // Adds the handle, and an assignment of the initial value placed with it.
  explicit GraphVariable(const VariableRequest& request);
  // One of a graph that was read: its nodes are there.
  explicit GraphVariable(const GraphImpl::VariableRecord& record);

  std::string device() const override;
  // Only sessions hold values: false.
  bool is_initialized() const override { return false; }
  std::shared_ptr<VariableImpl> deep_copy() const override;
  // Placed with the variable.
  Tensor read() const override;
  // One read for all, where no control dependencies say what it comes after.
  Tensor convert() const override;
  std::string to_string() const override;

  const Tensor& initializer() const { return initializer_; }

 private:
  Tensor initializer_;
};

}  // namespace cohort::internal
