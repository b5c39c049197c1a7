#pragma once

#include <vector>

#include "cohort/variable.h"

namespace cohort::internal {

// This thread's open creators, outermost first.
std::vector<VariableCreator>& variable_creators();

}  // namespace cohort::internal
