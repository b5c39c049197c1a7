#include "ops/promotion.h"

#include "base/raise.h"
#include "cohort/ops.h"
#include "ops/elementwise.h"
#include "ops/kernel.h"
#include "tensor/body.h"

namespace cohort {
namespace internal {
namespace {

DType common_dtype(std::string_view op, const TensorBody& a, const TensorBody& b) {
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
  const DType dtype = common_dtype(op, left, right);
  return {converted(a, dtype), converted(b, dtype)};
}

namespace {

// A few numbers, by a loop. What becomes of a float that no integer holds is up to the library.
bool cast_small(Kernel& k, DType dtype) {
  const bool narrows = is_floating(body(k.inputs[0]).dtype) && !is_floating(dtype);
  if (narrows || !kSmallTypes.has(dtype)) return false;
  const bool fits = is_small(dtype, body(k.inputs[0]).shape.num_elements());
  bool done = false;
  visit_small(dtype, [&]<typename To>(To) {
    done = fits && compute_small_unary(k, [](auto x) { return static_cast<To>(x); });
  });
  return done;
}

}  // namespace

extern constexpr OpDef kCast{
    .name = "Cast",
    .inputs = 1,
    .dtypes = kNumericTypes,
    .attrs = {{"dtype", AttrKind::DType}},
    .infer = [](const OpInputs& inputs) -> Specs {
      const auto dtype = inputs.attrs.get<DType>("dtype");
      to_aten(dtype);  // throws unless numeric
      return {{dtype, inputs.shape(0)}};
    },
    .compute =
        [](Kernel& k) {
          const auto dtype = k.attrs.get<DType>("dtype");
          if (!cast_small(k, dtype)) set(k, in(k).to(to_aten(dtype)));
        },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      const DType dtype = call.inputs[0].dtype();
      if (!is_floating(dtype)) return {{}};
      return {cast(g[0], dtype)};
    },
};

}  // namespace internal

Tensor cast(const Tensor& x, DType dtype, Site site) {
  if (x.defined() && x.dtype() == dtype && !internal::body(x).weak) return x;
  return internal::apply(internal::kCast, {x}, {{"dtype", dtype}}, site);
}

}  // namespace cohort
