#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "cohort/gradient.h"
#include "cohort/variable.h"

namespace cohort::internal {

// The updates of an optimizer that is not one of ours, with what a strategy does for those that
// are: gradients are added up over the replicas and guarded, variables without one are named.
// Replicas of a strategy use one at the same time.
class ExternalUpdates {
 public:
  ExternalUpdates();
  ~ExternalUpdates();
  ExternalUpdates(ExternalUpdates&&) noexcept;
  ExternalUpdates& operator=(ExternalUpdates&&) noexcept;

  // Calls `change(sums)` once for each copy of the variables, where current_component() is that
  // copy's; each replica for its own where it has one. Not at all when a guard leaves the update
  // out. Throws as Optimizer::apply_gradients does.
  void apply(const Gradients& own, const std::vector<Variable>& variables,
             const std::function<void(const Gradients& sums)>& change);
  // Number of updates made.
  Variable iterations() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cohort::internal
