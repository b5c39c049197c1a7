#pragma once

#include <ATen/core/LegacyTypeDispatch.h>

namespace cohort::internal {

// Calls to the kernel library inside its life skip torch's autograd, which our tape replaces. The
// results are ordinary torch tensors that torch's autograd can use later.
using ScopedKernel = at::AutoDispatchBelowADInplaceOrView;

}  // namespace cohort::internal
