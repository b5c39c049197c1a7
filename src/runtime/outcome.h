#pragma once

#include <string>
#include <vector>

#include "cohort/error.h"

namespace cohort::internal {

// What to tell of several outcomes of one step: the failures that are not consequences of another
// one, joined, with the code of the first; a consequence only when there is nothing else; OK when
// all are.
Status root_cause(const std::vector<Status>& outcomes);

}  // namespace cohort::internal
