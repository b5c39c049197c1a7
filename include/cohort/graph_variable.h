#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "cohort/graph.h"
#include "cohort/nn_layers.h"
#include "cohort/variable.h"

// Variables of graphs. A Variable that is made while a graph is being built is a node of it; its
// state belongs to the session that runs the graph, and must be initialised there.

namespace cohort {

enum class Reuse {
  No,    // the name is new, or it is AlreadyExists
  Yes,   // the name exists, or it is NotFound
  Auto,  // the variable of that name, made when there is none
};

struct GetVariableOptions {
  Shape shape = Shape::unknown();
  DType dtype = kFloat32;
  nn::Initializer initializer = nullptr;  // glorot_uniform for floats, zeros for the others
  std::optional<bool> trainable = std::nullopt;
  Reuse reuse = Reuse::No;
};
// The variable of that name (after the open name scopes) of the graph being built. A reused one
// must have the asked-for dtype and shape (InvalidArgument).
Variable get_variable(std::string_view name, const GetVariableOptions& options = {});

// Gives every variable made so far its first value, when it is run.
Tensor global_variables_initializer();
inline Tensor initialize_all_variables() { return global_variables_initializer(); }  // the old name

// The variables of the graph being built, in the order of their making.
std::vector<Variable> global_variables();
std::vector<Variable> trainable_variables();

// A variable of one client: not among the global ones, not shared on purpose and not saved. It goes
// where ordinary nodes go, also under a replica_device_setter.
Variable local_variable(const Initializer& initializer, const VariableOptions& options = {});
std::vector<Variable> local_variables();
// Gives every local variable made so far its first value, when it is run.
Tensor local_variables_initializer();

// Whether the variable has a value in the session that runs it; bool.
Tensor is_variable_initialized(const Variable& variable);
// The names of those of these variables that have no value yet; a vector of strings, empty when all
// is ready. Without variables: of all global and local ones made so far.
Tensor report_uninitialized_variables();
Tensor report_uninitialized_variables(const std::vector<Variable>& variables);

// The graph's counter of training steps: int64, not trained, made at the first call. Unless the
// device scopes of that call name a job, it goes to the task of the graph's first variable, which
// may be made later: so all workers share it. An optimizer's count of updates does so, too.
Variable global_step();
// The same if it exists.
std::optional<Variable> find_global_step();

}  // namespace cohort
