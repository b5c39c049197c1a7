#pragma once

#include "differential/execute.h"

namespace cohort::differential {

// What the program shows by the rules for variables, reductions and input, worked out without
// strategies, threads or graphs.
Outcome expected(const Program& program, Tracing tracing);

}  // namespace cohort::differential
