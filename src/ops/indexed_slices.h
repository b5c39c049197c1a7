#pragma once

#include "cohort/gradient.h"

namespace cohort::internal {

// The same rows with those named twice added up, in the order of first appearance.
IndexedSlices merge_rows(const IndexedSlices& slices);

}  // namespace cohort::internal
