#pragma once

#include <functional>
#include <string>

#include "cohort/strategy.h"

namespace cohort::internal {

// What the workers of a strategy do together while the program is outside `run`. All workers
// call these functions, in the same order. A worker that was started again does its part alone
// until it has the others' values.

// Calls `part`, which each worker does by itself. What it throws on one worker is thrown on all;
// `what` begins the message.
void on_each_worker(StrategyExtended& extended, const std::string& what,
                    const std::function<void()>& part);

// The value of the first worker. `what` names it for the check that the workers make the same call.
Tensor value_of_first_worker(StrategyExtended& extended, const std::string& what,
                             const Tensor& value);

}  // namespace cohort::internal
