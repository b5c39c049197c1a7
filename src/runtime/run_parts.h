#pragma once

#include <chrono>

#include "runtime/session_impl.h"

namespace cohort::internal {

// Runs all parts of a compiled run, one on this thread and the others beside it, and returns the
// fetches. When one fails the others are cancelled; the first failure that is not a consequence of
// that is thrown. After `limit` (0 = none) the run ends with DeadlineExceeded.
std::vector<Tensor> run_parts(const CompiledRun& run, const std::vector<Tensor>& values,
                              std::map<std::string, ResourceTable>& resources,
                              Cancellation& cancellation, std::chrono::milliseconds limit,
                              RunMetadata* metadata);

}  // namespace cohort::internal
