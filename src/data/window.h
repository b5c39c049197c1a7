#pragma once

#include "cohort/dataset.h"

namespace cohort::data::internal {

// The most elements that a window may span in this process.
int64_t max_window_span();
// input.window(size, options) with a limit of its own in place of max_window_span().
Dataset window_within(int64_t max_span, const Dataset& input, int64_t size,
                      const WindowOptions& options);

}  // namespace cohort::data::internal
