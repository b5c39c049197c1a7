#pragma once

#include "cohort/data.h"

namespace cohort::data::internal {

// Returns an element without samples, for a replica without data: zeros and empty strings. Unknown
// dimensions become 0; if all dimensions are known, the first one does. Throws FailedPrecondition
// if the rank of a tensor is unknown.
Element empty_element(const ElementSpec& spec);

}  // namespace cohort::data::internal
