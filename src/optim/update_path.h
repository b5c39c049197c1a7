#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "cohort/gradient.h"
#include "cohort/variable.h"

namespace cohort::internal {

// How an optimizer's update reaches the variables of a strategy. The optimizer asks for the path at
// each update.
class UpdatePath {
 public:
  virtual ~UpdatePath() = default;

  // Whether the strategy made the variable.
  virtual bool owns(const Variable& variable) const = 0;
  // Makes a variable that lives where `neighbour`, a variable of the strategy, does. One replica
  // may make it for all replicas.
  virtual Variable make_beside(const Variable& neighbour, const VariableRequest& request) const = 0;

  // Copy `index` of a variable of the strategy; the variable itself where there is one copy.
  virtual const Variable& copy_of(const Variable& variable, size_t index) const = 0;

  // Gives `step` the gradients of all replicas together, once for each copy of the variables, with
  // the index of the copy. The program's own code that the step calls reads and writes that copy,
  // too. Returns what the step returned, in a graph all of it. Returns an undefined tensor when a
  // guard left the update out.
  struct Step {
    std::function<Tensor(const Gradients& sums, size_t copy)> take;
    Variable taken;  // counts the optimizer's updates; it tells one optimizer from others
  };
  virtual Tensor apply(const Gradients& own, const std::vector<Variable>& variables,
                       const Step& step) const = 0;
};

// The path to these variables from where this thread is; null without a strategy. Throws
// InvalidArgument when a variable was made in another scope than the current one.
std::unique_ptr<UpdatePath> find_update_path(const std::vector<Variable>& variables);

// The module that has strategies sets the finder when the first strategy is made.
using UpdatePathFinder = std::unique_ptr<UpdatePath> (*)(const std::vector<Variable>& variables);
void set_update_path_finder(UpdatePathFinder finder);

// Variables and their gradients, with the parts in the place of each sharded variable.
struct VariableParts {
  Gradients gradients;
  std::vector<Variable> variables;
};
// nullopt when none of the variables is sharded.
std::optional<VariableParts> expand_variables(const Gradients& gradients,
                                              const std::vector<Variable>& variables);
// The parts of a sharded variable, in the order of their rows; empty for other variables.
std::vector<Variable> parts_of_variable(const Variable& variable);
// Variables with consecutive rows as one variable that reads and writes all of them.
Variable join_variables(const std::vector<Variable>& parts, const std::string& name);

// What the three functions above call. The module that has sharded variables sets the hooks, which
// must live for ever, when the first such variable is made.
struct ShardedVariableHooks {
  std::optional<VariableParts> (*expand)(const Gradients& gradients,
                                         const std::vector<Variable>& variables);
  Variable (*join)(const std::vector<Variable>& parts, const std::string& name);
};
void set_sharded_variable_hooks(const ShardedVariableHooks& hooks);

// A new variable that counts updates. Its name is the prefix and "iterations".
Variable make_update_count(const std::string& prefix = "");
// Moves the count to where the updated variables are.
void settle_update_count(Variable& count, const UpdatePath& path, const Variable& neighbour);

// Throws InvalidArgument unless one of the gradients is defined.
void require_some_gradient(const Gradients& gradients);

// Variables that an update left as they are. Thread-safe.
class IdleVariables {
 public:
  // Logs a warning the first time that the variable is named.
  void name_once(const Variable& variable);

 private:
  Mutex mutex_;
  std::set<std::string> named_;  // guarded by mutex_
};

}  // namespace cohort::internal
