#pragma once

// Arithmetic and comparison operators on tensors, variables and C++ numbers, and what they share.
// Not for inclusion by users: include cohort/ops.h.

#include <concepts>
#include <type_traits>

#include "cohort/tensor.h"

namespace cohort {

class Variable;
class Gradient;

namespace internal {

// Types besides Tensor that stand for one in an expression specialise this.
template <typename T>
inline constexpr bool is_tensor_like = false;
template <>
inline constexpr bool is_tensor_like<Tensor> = true;
template <>
inline constexpr bool is_tensor_like<Variable> = true;
template <>
inline constexpr bool is_tensor_like<Gradient> = true;

template <typename T>
concept TensorLike = is_tensor_like<std::remove_cvref_t<T>>;
template <typename T>
concept Operand = TensorLike<T> ||(TensorElement<T>&& std::is_arithmetic_v<T>);
// Constrained so that an expression of torch tensors or of plain numbers never comes here.
template <typename A, typename B>
concept Operands = Operand<A> && Operand<B> &&(TensorLike<A> || TensorLike<B>);

template <Operand T>
Tensor as_operand(const T& value) {
  return static_cast<Tensor>(value);
}

}  // namespace internal

#define COHORT_BINARY_OPERATOR(symbol, function)                                     \
  template <typename A, typename B>                                                  \
  requires internal::Operands<A, B> Tensor operator symbol(const A& a, const B& b) { \
    return function(internal::as_operand(a), internal::as_operand(b));               \
  }

COHORT_BINARY_OPERATOR(+, add)
COHORT_BINARY_OPERATOR(-, sub)
COHORT_BINARY_OPERATOR(*, mul)
COHORT_BINARY_OPERATOR(/, div)
COHORT_BINARY_OPERATOR(%, mod)
COHORT_BINARY_OPERATOR(==, equal)
COHORT_BINARY_OPERATOR(!=, not_equal)
COHORT_BINARY_OPERATOR(<, less)
COHORT_BINARY_OPERATOR(<=, less_equal)
COHORT_BINARY_OPERATOR(>, greater)
COHORT_BINARY_OPERATOR(>=, greater_equal)
COHORT_BINARY_OPERATOR(&, bitwise_and)
COHORT_BINARY_OPERATOR(|, bitwise_or)
COHORT_BINARY_OPERATOR(^, bitwise_xor)
#undef COHORT_BINARY_OPERATOR

template <internal::TensorLike T>
Tensor operator-(const T& x) {
  return neg(internal::as_operand(x));
}
template <internal::TensorLike T>
Tensor operator!(const T& x) {
  return logical_not(internal::as_operand(x));
}
template <internal::TensorLike T>
Tensor operator~(const T& x) {
  return bitwise_not(internal::as_operand(x));
}

}  // namespace cohort
