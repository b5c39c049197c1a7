#pragma once

#include <string_view>

#include "cohort/graph_variable.h"
#include "cohort/session.h"

namespace cohort::internal {

// A node that reads the global step of the graph being built. Throws FailedPrecondition naming
// `who` when there is none.
Tensor read_global_step(std::string_view who);

inline int64_t step_now(Session& session, const Tensor& global_step) {
  return session.run(global_step).to<int64_t>();
}

}  // namespace cohort::internal
