#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "cohort/optim.h"
#include "ops/op.h"

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
// src/distribute/reduce/gradient_update.cc defines this function.
std::unique_ptr<UpdatePath> find_update_path(const std::vector<Variable>& variables);

// Variables and their gradients, with the parts in the place of each sharded variable.
struct VariableParts {
  Gradients gradients;
  std::vector<Variable> variables;
};
// nullopt when none of the variables is sharded. src/distribute/variables/sharded_variable.cc
// defines this function and the next one.
std::optional<VariableParts> expand_variables(const Gradients& gradients,
                                              const std::vector<Variable>& variables);
// Variables with consecutive rows as one variable that reads and writes all of them.
Variable join_variables(const std::vector<Variable>& parts, const std::string& name);

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

namespace cohort::optim::internal {

struct SlotSpec {
  std::string name;
  double initial_value = 0;
};

// The rule of an optimizer: the op that updates a variable (ops/optimizer_ops.cc lists its inputs),
// the constants of the op, and the slots.
struct Rule {
  const cohort::internal::OpDef* op;
  cohort::internal::Attrs constants;
  std::vector<SlotSpec> slots;
};

// The state of an optimizer that only checkpoints see.
struct OptimizerAccess {
  struct Slot {
    Variable variable;  // that the slot belongs to
    std::string name;
    Variable value;
    double initial_value;
  };
  // The slots that exist, in no particular order.
  static std::vector<Slot> slots(const Optimizer& optimizer);
  // Whether the rule has a slot of that name.
  static bool has_slot(const Optimizer& optimizer, std::string_view name);
  // Sets what a slot that does not exist yet begins with.
  static void await(Optimizer& optimizer, const Variable& variable, const std::string& slot,
                    Tensor value);
};

// Throws InvalidArgument "[optimizer] name must be ..., got value" unless `holds`.
void require(bool holds, std::string_view optimizer, std::string_view what, double value);

// Throws InvalidArgument for negative limits.
Clipping checked(const Clipping& clipping);
// Throws InvalidArgument unless there is one gradient per variable and each fits its variable.
void check_all(const Gradients& gradients, const std::vector<Variable>& variables);

Gradients clipped(const Gradients& gradients, const Clipping& clipping);

}  // namespace cohort::optim::internal
