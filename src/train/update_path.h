#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "cohort/gradient.h"
#include "cohort/variable.h"

namespace cohort::internal {

// How an optimizer's update reaches variables that a strategy keeps. It is asked for at each
// update; where no strategy is about there is none.
class UpdatePath {
 public:
  virtual ~UpdatePath() = default;

  // Whether the strategy made the variable.
  virtual bool owns(const Variable& variable) const = 0;
  // Makes a variable that lives where `neighbour`, which the strategy owns, does. Any one replica
  // may do it for all.
  virtual Variable make_beside(const Variable& neighbour, const VariableRequest& request) const = 0;

  // Gives `step` the gradients of all replicas together, once for each copy of the variables and in
  // a context where everything it reads and writes is that copy's. Returns what it returned, in a
  // graph all of it, and nothing when the update was left out.
  //
  // They come as one list, or where the step `adds` as several, which are dense and alike, to be
  // added up in their order.
  struct Step {
    std::function<Tensor(std::span<const Gradients> terms)> take;
    bool adds;
    Variable taken;  // how many the optimizer has taken before; it tells one optimizer from others
  };
  virtual Tensor apply(const Gradients& own, const std::vector<Variable>& variables,
                       const Step& step) const = 0;
};

// The route to these variables from where this thread is; null without a strategy. Throws
// InvalidArgument when a variable was made in another scope than the one that is current.
std::unique_ptr<UpdatePath> find_update_route(const std::vector<Variable>& variables);

// Variables with others in the place of those that are made of others, and their gradients.
struct VariableParts {
  Gradients gradients;
  std::vector<Variable> variables;
};
// nullopt when none of them is made of others.
std::optional<VariableParts> expand_variables(const Gradients& gradients,
                                              const std::vector<Variable>& variables);
// The variables that this one is made of, in the order of their rows; empty when it is one.
std::vector<Variable> parts_of_variable(const Variable& variable);
// Variables with consecutive rows as one that is made of them, for who reads and writes them all.
Variable join_variables(const std::vector<Variable>& parts, const std::string& name);

// What those ask: set by the module that has such variables when the first one is made.
struct ShardedVariableHooks {
  std::optional<VariableParts> (*expand)(const Gradients& gradients,
                                         const std::vector<Variable>& variables);
  Variable (*join)(const std::vector<Variable>& parts, const std::string& name);
};
void set_sharded_variable_hooks(const ShardedVariableHooks& jointer);  // which lives for ever

// What find_update_route asks: set by the module that has strategies when the first one is made.
using UpdatePathFinder = std::unique_ptr<UpdatePath> (*)(const std::vector<Variable>& variables);
void set_update_route_finder(UpdatePathFinder finder);

}  // namespace cohort::internal
