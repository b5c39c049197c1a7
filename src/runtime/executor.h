#pragma once

#include <chrono>
#include <span>
#include <vector>

#include "ops/run_context.h"
#include "runtime/plan.h"

namespace cohort::internal {

// When one step of a plan ran.
struct StepTime {
  const Node* node;
  std::chrono::steady_clock::time_point start;
  std::chrono::steady_clock::time_point end;
  int64_t output_bytes;
};

// Runs the steps of a plan one after the other, on this thread and its device, and returns the
// fetches. A value lives until its last use and is handed to that use alone, so that kernels may
// write their result over it. Throws what a kernel throws, with the node, its device and where in
// the program it was made; checks the context's cancellation between steps. Fills `times` when
// given.
std::vector<Tensor> run_plan(const Plan& plan, std::span<const Tensor> feeds, RunContext& context,
                             std::vector<StepTime>* times = nullptr);

}  // namespace cohort::internal
