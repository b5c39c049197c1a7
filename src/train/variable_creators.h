#pragma once

#include <vector>

#include "cohort/variable.h"

namespace cohort::internal {

// This thread's open creators, outermost first.
std::vector<VariableCreator>& variable_creators();

// Makes the variable without asking them: a node of the graph being built, or, outside of graphs
// and while a function is traced, a variable that exists at once.
Variable make_ordinary_variable(const VariableRequest& request);

}  // namespace cohort::internal
