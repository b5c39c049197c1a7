#pragma once

#include <memory>

#include "cohort/strategy.h"

namespace cohort {

// The strategy for which this process was started, so that one program trains in every way:
//
//   auto strategy = strategy_from_environment();
//   auto scope = strategy->scope();
//
// The variable COHORT_STRATEGY, which `cohort run --strategy` sets, names it:
//
//   one_device, mirrored, central_storage   in this process, on its GPUs or else its CPU
//   multi_worker                            in lockstep with the other workers
//   parameter_server                        the chief trains, with the workers and ps tasks
//
// Without the variable it follows from the cluster that resolver_from_environment() finds:
// parameter_server where there are ps tasks, multi_worker for one of several tasks that train, else
// mirrored on several devices or one_device. An evaluator is always on its own.
//
// Under parameter_server, ps and worker tasks serve and never return: their process ends, with exit
// code 0, when the chief shuts the cluster down or SIGTERM comes. The chief's strategy shuts the
// cluster down when it is destroyed, unless the program has done so. After an exception the servers
// stay in place for a chief that is started again.
//
// Throws InvalidArgument for a name that COHORT_STRATEGY cannot have and for a cluster with ps
// tasks and without a chief, and what resolver_from_environment() and the strategy's constructor
// throw.
std::unique_ptr<Strategy> strategy_from_environment();

}  // namespace cohort
