#pragma once

#include <memory>
#include <vector>

#include "cohort/internal/run_observer.h"

namespace cohort::internal {

// Tells the observers of a strategy of one run.
class ObservedRun {
 public:
  explicit ObservedRun(const Strategy& strategy);
  ~ObservedRun();  // of a run that has not ended: it failed
  ObservedRun(const ObservedRun&) = delete;
  ObservedRun& operator=(const ObservedRun&) = delete;

  void end();

 private:
  std::vector<std::shared_ptr<RunObserver>> begun_;  // in the order of their calls
};

}  // namespace cohort::internal
