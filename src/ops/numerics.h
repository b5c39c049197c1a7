#pragma once

#include "ops/op.h"

namespace cohort::internal {

struct NonFinite {
  int64_t nans = 0;
  int64_t infinities = 0;

  bool any() const { return nans + infinities > 0; }
};
// None for a tensor that is not floating.
NonFinite count_non_finite(const Tensor& x);

// Whether a NumericsGuard lives on this thread.
bool numerics_guarded();
// Throws InvalidArgument naming `op` when an output has a NaN or an infinity, and the input that
// already had one, if so.
void check_outputs(const OpDef& op, std::span<const Tensor> inputs,
                   std::span<const Tensor> outputs);

}  // namespace cohort::internal
