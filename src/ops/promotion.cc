#include "ops/promotion.h"

#include "base/raise.h"
#include "cohort/ops.h"
#include "tensor/body.h"

namespace cohort::internal {
namespace {

DType meeting_dtype(std::string_view op, const TensorBody& a, const TensorBody& b) {
  if (a.weak == b.weak) {
    if (is_numeric(a.dtype) != is_numeric(b.dtype)) {
      raise(Code::InvalidArgument, "[{}] {} and {} have no common dtype", op, to_string(a.dtype),
            to_string(b.dtype));
    }
    return promote(a.dtype, b.dtype);
  }
  const TensorBody& number = a.weak ? a : b;
  const TensorBody& tensor = a.weak ? b : a;
  if (is_floating(tensor.dtype)) return tensor.dtype;
  if (is_floating(number.dtype)) return kFloat32;
  if (is_integer(tensor.dtype)) return tensor.dtype;
  return promote(tensor.dtype, number.dtype);  // a bool tensor
}

Tensor converted(const Tensor& x, DType dtype) {
  return body(x).dtype == dtype ? x : cast(x, dtype);
}

}  // namespace

Pair promoted(std::string_view op, const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return {a, b};  // apply() names the one that is missing
  const TensorBody& left = body(a);
  const TensorBody& right = body(b);
  if (left.dtype == right.dtype) return {a, b};
  const DType dtype = meeting_dtype(op, left, right);
  return {converted(a, dtype), converted(b, dtype)};
}

}  // namespace cohort::internal
