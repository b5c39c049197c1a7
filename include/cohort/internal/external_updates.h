#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "cohort/gradient.h"
#include "cohort/variable.h"

namespace cohort::internal {

// ExternalUpdates makes the updates of an optimizer that is not part of the library. It does what a
// strategy does for the library's optimizers: it sums gradients over the replicas, guards them, and
// names variables without a gradient in a warning. The replicas of a strategy use one
// ExternalUpdates at the same time.
class ExternalUpdates {
 public:
  ExternalUpdates();
  ~ExternalUpdates();
  ExternalUpdates(ExternalUpdates&&) noexcept;
  ExternalUpdates& operator=(ExternalUpdates&&) noexcept;

  // Calls `change(sums)` once for each copy of the variables; meanwhile current_component() is that
  // copy's. Each replica calls it for its own copy, if it has one. `change` is not called if a
  // guard skips the update. Throws as Optimizer::apply_gradients() does.
  void apply(const Gradients& own, const std::vector<Variable>& variables,
             const std::function<void(const Gradients& sums)>& change);
  // The number of updates made.
  Variable iterations() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cohort::internal
