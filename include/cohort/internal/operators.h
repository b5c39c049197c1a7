#pragma once

// Operators on tensors, variables and C++ numbers. Users include cohort/ops.h instead.

#include <concepts>
#include <type_traits>

#include "cohort/error.h"
#include "cohort/tensor.h"

namespace cohort {

class Variable;
class Gradient;

namespace internal {

// Specialised for the types besides Tensor that an expression treats as a tensor.
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
concept OperandType = TensorLike<T> ||(TensorElement<T>&& std::is_arithmetic_v<T>);

// Operand is one side of an expression, and the source line of the expression. Only types that are
// treated as tensors convert to it, so that expressions of torch tensors never use these operators.
class Operand {
 public:
  template <OperandType T>
  Operand(const T& value, Site site = Site::here())
      : tensor_(static_cast<Tensor>(value)), site_(site) {}

  const Tensor& tensor() const { return tensor_; }
  Site site() const { return site_; }

 private:
  Tensor tensor_;
  Site site_;
};

}  // namespace internal

#define COHORT_BINARY_OPERATOR(symbol, function)                                          \
  Tensor function(const Tensor& a, const Tensor& b, Site site);                           \
  inline Tensor operator symbol(const internal::Operand& a, const internal::Operand& b) { \
    return function(a.tensor(), b.tensor(), a.site());                                    \
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

Tensor neg(const Tensor& x, Site site);
Tensor logical_not(const Tensor& x, Site site);
Tensor bitwise_not(const Tensor& x, Site site);
inline Tensor operator-(const internal::Operand& x) { return neg(x.tensor(), x.site()); }
inline Tensor operator!(const internal::Operand& x) { return logical_not(x.tensor(), x.site()); }
inline Tensor operator~(const internal::Operand& x) { return bitwise_not(x.tensor(), x.site()); }

}  // namespace cohort
