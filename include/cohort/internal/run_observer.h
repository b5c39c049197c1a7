#pragma once

#include <memory>

#include "cohort/strategy.h"

namespace cohort::internal {

// What watches the runs of a strategy: state that replicas change past the strategy, such as a
// torch module's. Both functions are called in the thread that calls run(), while none of its
// replicas runs.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  virtual void before_run() = 0;
  // What it throws, run() throws; nothing may be thrown after a run that failed.
  virtual void after_run(bool failed) = 0;
};

// The observer sees all runs of the strategy for as long as it lives. Observers are called in the
// order in which they came.
void observe_runs(const Strategy& strategy, const std::shared_ptr<RunObserver>& observer);

}  // namespace cohort::internal
