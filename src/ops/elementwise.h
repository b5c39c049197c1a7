#pragma once

#include <concepts>
#include <type_traits>

#include "kernels/dtypes.h"  // IWYU pragma: export
#include "ops/kernel.h"

// How element-wise ops compute.
namespace cohort::internal {

// Results that are written over an input. A graph run hands a value to its last user alone, so that
// a kernel may use its memory again; everywhere else inputs belong to others.

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

// A function of one tensor, element by element: make(x) computes it, write(x) does so in place.
// 16-bit floats are computed in float32.
template <typename Make, typename Write>
void compute_unary(Kernel& kernel, const Make& make, const Write& write) {
  const at::Tensor& x = in(kernel);
  if (is_narrow(x)) return set_narrowed(kernel, make(widened(x)));
  compute_over(
      kernel, 0, [&] { return make(x); }, write);
}
using Unary = at::Tensor (*)(const at::Tensor&);
using UnaryInPlace = at::Tensor& (*)(at::Tensor&);
inline void compute_unary(Kernel& kernel, Unary make, UnaryInPlace write) {
  compute_unary<Unary, UnaryInPlace>(kernel, make, write);
}

// One of two tensors of one dtype, element by element; it may write over either, where that has the
// shape of the result.
using Binary = at::Tensor (*)(const at::Tensor&, const at::Tensor&);
using BinaryInto = at::Tensor& (*)(at::Tensor& out, const at::Tensor&, const at::Tensor&);
void compute_binary(Kernel& kernel, Binary make, BinaryInto write);

// Both in the dtype in which they meet. A C++ number adopts the other's dtype; one that is floating
// makes an integer tensor float32.
struct Pair {
  Tensor a;
  Tensor b;
};
Pair promoted(std::string_view op, const Tensor& a, const Tensor& b, Site site);
// Calls an op of two tensors on both in the dtype in which they meet.
Tensor apply_promoted(const OpDef& op, const Tensor& a, const Tensor& b, Site site);

// Throws InvalidArgument for a zero among integers.
void check_divisor(std::string_view op, const at::Tensor& divisor);

// Ops of one tensor, and of two tensors of one dtype that broadcast, element by element. The result
// has the dtype of the inputs.
constexpr OpDef unary_op(std::string_view name, DTypeSet dtypes, Compute compute,
                         GradientOf gradient, const AttrList& attrs = {}) {
  return {.name = name,
          .inputs = 1,
          .dtypes = dtypes,
          .attrs = attrs,
          .infer = infer_same,
          .compute = compute,
          .gradient = gradient};
}
constexpr OpDef binary_op(std::string_view name, DTypeSet dtypes, Compute compute,
                          GradientOf gradient) {
  return {.name = name,
          .inputs = 2,
          .dtypes = dtypes,
          .infer = infer_broadcast,
          .compute = compute,
          .gradient = gradient,
          .traits = Trait::OneDType};
}

// Loops over a few elements: a kernel of the library takes longer to call than such a loop takes to
// run. Loops give the same results as kernels, down to the last bit.

// The dtypes that the loops take.
inline constexpr DTypeSet kSmallTypes{
    1 << static_cast<int>(DType::Float32) | 1 << static_cast<int>(DType::Float64) |
    1 << static_cast<int>(DType::Int32) | 1 << static_cast<int>(DType::Int64)};

// The elements of an input of such a dtype, when they are few and lie in this machine's memory;
// else null.
const std::byte* few_elements(const Tensor& input);
// Whether few_elements() of both go together: equal shapes, or a scalar on one side.
bool pair_up(const Shape& a, const Shape& b);

// Calls body(T{}) with the C++ type of one of kSmallTypes.
template <typename Body>
void visit_small(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::Float32:
      return body(float{});
    case DType::Float64:
      return body(double{});
    case DType::Int32:
      return body(int32_t{});
    default:
      return body(int64_t{});
  }
}

// Sets output 0 to f(x), element by element, when that is little work; false when it is not done.
template <typename F>
bool compute_small_unary(Kernel& kernel, const F& f) {
  const std::byte* x = few_elements(kernel.inputs[0]);
  if (x == nullptr) return false;
  const TensorBody& held = body(kernel.inputs[0]);
  visit_small(held.dtype, [&]<typename T>(T) {
    using Result = decltype(f(T{}));
    const int64_t count = held.shape.num_elements();
    WritableTensor made = make_small(dtype_of<Result>, held.shape);
    for (int64_t i = 0; i < count; ++i) {
      reinterpret_cast<Result*>(made.data)[i] = f(reinterpret_cast<const T*>(x)[i]);
    }
    kernel.outputs[0] = std::move(made.tensor);
  });
  return true;
}

// The same for f(a, b) of two inputs of one dtype.
template <typename F>
bool compute_small_binary(Kernel& kernel, const F& f) {
  const std::byte* a = few_elements(kernel.inputs[0]);
  const std::byte* b = a == nullptr ? nullptr : few_elements(kernel.inputs[1]);
  if (b == nullptr) return false;
  const TensorBody& left = body(kernel.inputs[0]);
  const TensorBody& right = body(kernel.inputs[1]);
  if (left.dtype != right.dtype || !pair_up(left.shape, right.shape)) return false;
  visit_small(left.dtype, [&]<typename T>(T) {
    using Result = decltype(f(T{}, T{}));
    const Shape& shape = left.shape.rank() == 0 ? right.shape : left.shape;
    const int64_t a_step = left.shape.rank() == 0 ? 0 : 1;
    const int64_t b_step = right.shape.rank() == 0 ? 0 : 1;
    const int64_t count = shape.num_elements();
    WritableTensor made = make_small(dtype_of<Result>, shape);
    for (int64_t i = 0; i < count; ++i) {
      reinterpret_cast<Result*>(made.data)[i] =
          f(reinterpret_cast<const T*>(a)[i * a_step], reinterpret_cast<const T*>(b)[i * b_step]);
    }
    kernel.outputs[0] = std::move(made.tensor);
  });
  return true;
}

// Integers wrap around, as the kernel library's do.
template <typename T>
auto wrapping(T value) {
  if constexpr (std::integral<T>) {
    return static_cast<std::make_unsigned_t<T>>(value);
  } else {
    return value;
  }
}

}  // namespace cohort::internal
