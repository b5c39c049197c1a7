#pragma once

// What the files that define ops include: the kernel library's tensors in and out of a Kernel.

#include <ATen/Functions.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <span>
#include <string>
#include <vector>

#include "ops/infer.h"
#include "ops/op.h"
#include "tensor/aten.h"

namespace cohort::internal {

inline const at::Tensor& in(const Kernel& kernel, size_t i = 0) { return aten(kernel.inputs[i]); }
inline void set(Kernel& kernel, at::Tensor value, size_t i = 0) {
  kernel.outputs[i] = from_aten(std::move(value));
}

// The result of an op that is called for its effect: a tensor without elements.
inline Specs nothing() { return {{kBool, Shape{0}}}; }
inline void set_nothing(Kernel& kernel) { set(kernel, at::empty({0}, at::kBool)); }

// The kernel library lacks many kernels for the 16-bit floats on a CPU; such ops compute in
// float32.
inline bool is_narrow(const at::Tensor& x) {
  return x.scalar_type() == at::kHalf || x.scalar_type() == at::kBFloat16;
}

// `x` in a dtype that every kernel has: itself unless it is a 16-bit float.
inline at::Tensor widened(const at::Tensor& x) { return is_narrow(x) ? x.to(at::kFloat) : x; }

// `result`, computed from widened(x), in the dtype of `x`.
inline at::Tensor narrowed(at::Tensor result, const at::Tensor& x) {
  return is_narrow(x) ? result.to(x.scalar_type()) : result;
}

// Sets output i to what was computed from widened inputs, in the dtype of input 0.
inline void set_narrowed(Kernel& kernel, at::Tensor value, size_t i = 0) {
  set(kernel, narrowed(std::move(value), in(kernel, 0)), i);
}

// Ops that only move elements about work on strings as on numbers: what the kernel library does to
// the positions of the strings, from_moved does to the strings.

// The value, or for strings the row-major position of each.
at::Tensor movable(const Tensor& x);
// `moved`, which was made from movable(x) by moving elements, as a tensor of x's dtype.
Tensor from_moved(const Tensor& x, at::Tensor moved);

// The same for several tensors of one dtype that are joined.
struct Movables {
  std::vector<at::Tensor> parts;
  std::vector<std::string> texts;  // of all parts together
  bool are_strings = false;
};
Movables movables(std::span<const Tensor> tensors);
Tensor from_moved(const Movables& joined, at::Tensor moved);

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
