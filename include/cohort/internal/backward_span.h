#pragma once

namespace cohort::internal {

// The backward pass of a step, for as long as it lives, in the timeline that `cohort run --trace`
// has the tasks write. What this thread did before, from the beginning of its step or tape on, is
// the forward pass.
class [[nodiscard]] BackwardSpan {
 public:
  BackwardSpan();
  ~BackwardSpan();
  BackwardSpan(const BackwardSpan&) = delete;
  BackwardSpan& operator=(const BackwardSpan&) = delete;

 private:
  long long began_ = 0;  // nanoseconds of the steady clock; 0 where nothing is kept
};

}  // namespace cohort::internal
