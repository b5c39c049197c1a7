#include "train_loop/global_step.h"

#include "base/raise.h"

namespace cohort::internal {

Tensor read_global_step(std::string_view who) {
  const std::optional<Variable> step = find_global_step();
  if (step) return step->read_value();
  raise(Code::FailedPrecondition,
        "[{}] the graph has no global step; make it with global_step() and count it up in the "
        "training op",
        who);
}

}  // namespace cohort::internal
