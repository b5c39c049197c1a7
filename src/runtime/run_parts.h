#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <string>

#include "cohort/session.h"
#include "ops/run_context.h"
#include "runtime/compiled_run.h"

namespace cohort::internal {

// What one run works with.
struct RunSetting {
  std::map<std::string, ResourceTable>& resources;  // by device
  Cancellation& cancellation;
  std::atomic<uint64_t>& numbered_runs;  // of the session: see RunNumber
  std::chrono::milliseconds limit;       // 0 = none
  RunMetadata* metadata;                 // filled when not null
};

// Runs all parts of a compiled run, one on this thread and the others beside it, and returns the
// fetches. When one fails the others are cancelled, and the failures that are not consequences of
// that are thrown as one error with the first one's code. After the limit the run ends with
// DeadlineExceeded.
std::vector<Tensor> run_parts(const CompiledRun& run, const std::vector<Tensor>& values,
                              const RunSetting& setting);

}  // namespace cohort::internal
