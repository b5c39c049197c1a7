#pragma once

#include <string>

#include "base/thread_context.h"
#include "cohort/tensor.h"

namespace cohort::internal {

// The parts of a training step whose code is traced as a function. A traced step runs without that
// code, so nodes of its graph add the parts to the timeline. They are made only while the timeline
// is on (src/base/timeline.h); otherwise, and outside a function that is being traced, these calls
// do nothing.

// The nodes of the step that this thread traces. All of them are on one device, since the clocks of
// two machines differ.
struct TracedStep {
  std::string device = {};
  Tensor began = {};
  Tensor backward_began = {};

  TracedStep captured() const { return {}; }  // other threads trace steps of their own
};
// While it lives, this thread traces a graph. The graph's step ends with the trace, however the
// trace ends.
class [[nodiscard]] TracedStepScope : ContextValue<TracedStep> {
 public:
  TracedStepScope();
};

// The outermost tape begins to record.
void begin_traced_step();
// The forward pass ends with this loss.
void end_traced_forward(const Tensor& loss);
// The step ends with these updates; `count` is the number of the step.
void end_traced_step(const Tensor& count, const Tensor& updates);

}  // namespace cohort::internal
