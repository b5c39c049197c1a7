#pragma once

#include <concepts>
#include <type_traits>

#include "ops/op.h"
#include "tensor/small.h"

// A kernel of the library takes longer to call than a loop over a few elements takes to run. What
// computes small values gives the same results, down to the last bit.
namespace cohort::internal {

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
