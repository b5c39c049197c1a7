#pragma once

#include <memory>

#include "cohort/strategy.h"

namespace cohort::internal {

// RunObserver watches the runs of a strategy, for state that replicas change without the strategy,
// such as that of a torch module. The thread of run() calls both functions while no replica runs.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  virtual void before_run() = 0;
  // run() throws what after_run() throws. after_run() must not throw after a run that failed.
  virtual void after_run(bool failed) = 0;
};

// Calls the observer around all runs of the strategy for as long as the observer exists. Observers
// are called in the order in which they were added.
void observe_runs(const Strategy& strategy, const std::shared_ptr<RunObserver>& observer);

}  // namespace cohort::internal
