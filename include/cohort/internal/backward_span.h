#pragma once

#include <cstdint>

namespace cohort::internal {

// BackwardSpan marks the backward pass of a step, from its construction to its destruction, in the
// timeline that tasks write under `cohort run --trace`. What this thread did before, since its step
// or tape began, is the forward pass.
class [[nodiscard]] BackwardSpan {
 public:
  BackwardSpan();
  ~BackwardSpan();
  BackwardSpan(const BackwardSpan&) = delete;
  BackwardSpan& operator=(const BackwardSpan&) = delete;

 private:
  long long began_ = 0;  // nanoseconds of the steady clock; 0 if no timeline is kept
};

// This thread uses a torch module. Outside of a replica's step, the forward pass begins with the
// first use after which torch's autograd records something, so not with net->train(). `recorded`
// counts what autograd has recorded on this thread.
void note_module_use(uint64_t recorded);

}  // namespace cohort::internal
