#pragma once

#include <vector>

#include "cohort/variable.h"

namespace cohort::internal {

// What initializes a variable that is made from a value, so that others can see the value without
// calling it.
struct ConstantInitializer {
  Tensor value;
  Tensor operator()() const { return value; }
};

// This thread's open creators, outermost first.
std::vector<VariableCreator>& variable_creators();

// Makes the variable without asking them: a node of the graph being built, or, outside of graphs
// and while a function is traced, a variable that exists at once.
Variable make_ordinary_variable(const VariableRequest& request);

}  // namespace cohort::internal
