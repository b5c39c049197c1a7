#pragma once

#include <optional>

#include "graph/graph_impl.h"
#include "variables/single_variable.h"

namespace cohort::internal {

// What is known of a variable before it is placed, for device functions that ask.
struct UnplacedVariable {
  std::optional<DType> dtype = std::nullopt;
  Shape shape = Shape::unknown();
};
// The variable whose handle this thread is adding to a graph; empty when there is none.
UnplacedVariable variable_being_placed();

// Places the variable with the first variable of its graph, made before it or after, unless the
// variable asks for a job itself. Without a task, each worker would have a variable of its own, and
// the chief initialises only one of them.
void follow_first_variable(const Variable& variable);

// A variable that is a node of a graph.
class GraphVariable : public SingleVariable {
 public:
  // Adds the handle, and an assignment of the initial value placed with it.
  explicit GraphVariable(const VariableRequest& request);
  // A variable of a graph that was read from a file: its nodes exist already.
  explicit GraphVariable(const GraphImpl::VariableRecord& record);

  std::string device() const override;
  // Always false: only sessions hold values.
  bool is_initialized() const override { return false; }
  std::shared_ptr<VariableImpl> deep_copy() const override;
  // The read is placed with the variable.
  Tensor read() const override;
  // All conversions share one read, which has no control dependencies.
  Tensor convert() const override;
  std::string to_string() const override;

  const Tensor& initializer() const { return initializer_; }

 private:
  Tensor initializer_;
};

// Whether the variable is a GraphVariable.
bool is_of_graph(const Variable& variable);

}  // namespace cohort::internal
