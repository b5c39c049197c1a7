#pragma once

#include "ops/kernel.h"
#include "ops/widen.h"

// Results that are written over an input. A graph run hands a value to its last user alone, so that
// a kernel may use its memory again; everywhere else inputs belong to others.
namespace cohort::internal {

// Whether `value` is the only way to its memory, which is the kernel library's own and has no gaps.
// Memory handed in by others is not for writing.
bool is_exclusive(const Tensor& value);

// Whether the kernel may write over input i.
bool may_overwrite(const Kernel& kernel, size_t i);

// Says that output 0 is what was written over input i, whose dtype and shape it has.
void set_overwritten(Kernel& kernel, size_t i);

// Sets output 0, which has the dtype and shape of input i: by write(memory of input i) where that
// is allowed, else to make().
template <typename Make, typename Write>
void compute_over(Kernel& kernel, size_t i, const Make& make, const Write& write) {
  if (!may_overwrite(kernel, i)) {
    set(kernel, make());
    return;
  }
  at::Tensor memory = in(kernel, i);
  write(memory);
  set_overwritten(kernel, i);
}

// A function of one tensor, element by element. 16-bit floats are computed in float32.
using Unary = at::Tensor (*)(const at::Tensor&);
using UnaryInPlace = at::Tensor& (*)(at::Tensor&);
void compute_unary(Kernel& kernel, Unary make, UnaryInPlace write);

// One of two tensors of one dtype, element by element; it may write over either, where that has the
// shape of the result.
using Binary = at::Tensor (*)(const at::Tensor&, const at::Tensor&);
using BinaryInto = at::Tensor& (*)(at::Tensor& out, const at::Tensor&, const at::Tensor&);
void compute_binary(Kernel& kernel, Binary make, BinaryInto write);

}  // namespace cohort::internal
