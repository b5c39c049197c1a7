#include "base/raise.h"
#include "cohort/nn_layers.h"

namespace cohort::nn {
namespace {

double checked(std::string_view which, double factor) {
  if (factor >= 0) return factor;
  cohort::internal::raise(Code::InvalidArgument, "[{}] the factor must not be negative, got {}",
                          which, factor);
}

}  // namespace

Regularizer l1(double factor) {
  checked("l1", factor);
  return [factor](const Tensor& x) { return sum(abs(x)) * factor; };
}

Regularizer l2(double factor) {
  checked("l2", factor);
  return [factor](const Tensor& x) { return sum(square(x)) * factor; };
}

Regularizer l1_l2(double l1_factor, double l2_factor) {
  return [first = l1(l1_factor), second = l2(l2_factor)](const Tensor& x) {
    return first(x) + second(x);
  };
}

}  // namespace cohort::nn
