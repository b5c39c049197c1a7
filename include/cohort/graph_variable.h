#pragma once

#include "cohort/graph.h"
#include "cohort/nn_layers.h"

// Variables of graphs. A Variable that a thread creates while it builds a graph is a node of the
// graph. Its value belongs to the session that runs the graph, where an op must initialise it.

namespace cohort {

// Reuse sets whether get_variable() may return a variable that exists.
enum class Reuse {
  No,    // creates it; throws AlreadyExists if it exists
  Yes,   // returns it; throws NotFound if it does not exist
  Auto,  // returns it, or creates it if it does not exist
};

// GetVariableOptions describes the variable of get_variable().
struct GetVariableOptions {
  Shape shape = Shape::unknown();
  DType dtype = kFloat32;
  nn::Initializer initializer = nullptr;  // default: glorot_uniform for floats, otherwise zeros
  std::optional<bool> trainable = std::nullopt;
  Reuse reuse = Reuse::No;
};
// Returns the variable of this name in the graph being built. Open name scopes come before the
// name. Throws InvalidArgument if a reused variable has another dtype or shape.
//
//   auto building = graph.as_default();
//   Variable kernel = get_variable("kernel", {.shape = {2, 3}});
//   session.run(global_variables_initializer());
Variable get_variable(std::string_view name, const GetVariableOptions& options = {},
                      Site site = Site::here());

// Returns an op that gives every variable created so far its first value.
Tensor global_variables_initializer(Site site = Site::here());
// The old name.
inline Tensor initialize_all_variables(Site site = Site::here()) {
  return global_variables_initializer(site);
}

// Return the variables of the graph being built, in the order of their creation.
std::vector<Variable> global_variables();
std::vector<Variable> trainable_variables();

// Creates a variable of one client. It is not one of the global variables, not meant to be shared,
// not saved, and placed like an ordinary node, even under a replica_device_setter().
Variable local_variable(const Initializer& initializer, const VariableOptions& options = {},
                        Site site = Site::here());
std::vector<Variable> local_variables();
// Returns an op that gives every local variable created so far its first value.
Tensor local_variables_initializer(Site site = Site::here());

// Returns a bool tensor: whether the variable, with all its copies or shards, has a value in the
// session that runs the tensor.
Tensor is_variable_initialized(const Variable& variable, Site site = Site::here());
// Return the names of those variables that have no value yet, as a vector of strings. Without an
// argument, these are all global and local variables created so far.
Tensor report_uninitialized_variables(Site site = Site::here());
Tensor report_uninitialized_variables(const std::vector<Variable>& variables,
                                      Site site = Site::here());

// Returns the graph's counter of training steps, and creates it at the first call: int64, not
// trainable. All workers share it: unless the device scopes of that call name a job, it is placed
// on the task of the graph's first variable, which may be created later. So is an optimizer's count
// of updates.
Variable global_step(Site site = Site::here());
// Returns that counter if it exists.
std::optional<Variable> find_global_step();

}  // namespace cohort
