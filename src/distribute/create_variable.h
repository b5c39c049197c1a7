#pragma once

#include <string>
#include <vector>

#include "cohort/strategy.h"

// How strategies make variables. `next` makes an ordinary variable; what a request may ask for is
// checked first (InvalidArgument).
namespace cohort::internal {

// One copy on each device. The initial value is computed once, for the first copy, and the others
// begin as that. Copy i > 0 is named "<name>/replica_<i>".
Variable make_mirrored_variable(Strategy& strategy, const std::vector<std::string>& devices,
                       const NextCreator& next, const VariableRequest& request);

// One copy for all replicas; with one replica an ordinary variable.
Variable make_aggregating_variable(Strategy& strategy, const std::string& device, const NextCreator& next,
                       const VariableRequest& request);

// An ordinary variable on that device that is the strategy's.
Variable make_plain_variable(Strategy& strategy, const std::string& device, const NextCreator& next,
                       const VariableRequest& request);

}  // namespace cohort::internal
