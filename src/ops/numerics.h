#pragma once

#include "ops/op.h"

namespace cohort::internal {

// Whether a NumericsGuard lives on this thread.
bool numerics_guarded();
// Throws InvalidArgument naming `op` when an output has a NaN or an infinity.
void check_outputs(const OpDef& op, std::span<const Tensor> outputs);

}  // namespace cohort::internal
