#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace cohort::internal {

// Calls to the kernel library inside its life skip torch's autograd, which our tape replaces. The
// results are ordinary torch tensors that torch's autograd can use later.
using ScopedKernel = at::AutoDispatchBelowADInplaceOrView;

// Undoes it for code that is not a kernel, though one calls it.
class OutsideKernel {
 public:
  OutsideKernel() : guard_(outside()) {}

 private:
  static c10::impl::LocalDispatchKeySet outside() {
    c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
    keys.excluded_ = keys.excluded_ - c10::autograd_dispatch_keyset_with_ADInplaceOrView;
    return keys;
  }

  const c10::impl::ForceDispatchKeyGuard guard_;
};

}  // namespace cohort::internal
