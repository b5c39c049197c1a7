#pragma once

#include <functional>
#include <string>

#include "cohort/strategy_extended.h"

namespace cohort::internal {

// Functions that the workers of a strategy call together while the program is outside `run`, all in
// the same order. A restarted worker runs them alone until it has the values of the others.

// Calls `part`, which each worker does by itself. An exception of one worker is thrown on all
// workers; `what` begins its message.
void on_each_worker(StrategyExtended& extended, const std::string& what,
                    const std::function<void()>& part);

// Returns the value of the first worker. `what` names the call when the workers check that they
// make the same call.
Tensor value_of_first_worker(StrategyExtended& extended, const std::string& what,
                             const Tensor& value);

}  // namespace cohort::internal
