#pragma once

#include "cohort/variable.h"

namespace cohort::internal {

// What one copy of a variable holds in this process, without a tape or a graph noting the read or
// the write. Undefined where it lies in another process or has no value yet.
Tensor held_value(const Variable& copy);
// Of the variable's dtype and shape, where held_value() is defined.
void set_held_value(const Variable& copy, const Tensor& value);

}  // namespace cohort::internal
