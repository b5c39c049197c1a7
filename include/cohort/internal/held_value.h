#pragma once

#include "cohort/variable.h"

namespace cohort::internal {

// Returns the value that one copy of a variable holds in this process. No tape or graph records the
// read. Returns an undefined tensor if the copy is in another process or has no value yet.
Tensor held_value(const Variable& copy);
// Sets the value; no tape or graph records the write. held_value() must be defined, and `value`
// must have the variable's dtype and shape.
void set_held_value(const Variable& copy, const Tensor& value);

}  // namespace cohort::internal
