// Functions of one tensor, element by element.

#include <cmath>

#include "cohort/ops.h"
#include "ops/elementwise.h"

namespace cohort {
namespace internal {
namespace {

// Tells of each element whether something is true.
constexpr OpDef test_op(std::string_view name, Compute compute) {
  return {.name = name,
          .inputs = 1,
          .dtypes = kFloatTypes,
          .infer = [](const OpInputs& inputs) -> Specs {
            return {{kBool, inputs.shape(0)}};
          },
          .compute = compute,
          .no_gradient_because = "its result is a truth value"};
}

// By `small` for a few elements, else by the kernel library.
template <typename Small>
void compute_unary(Kernel& kernel, const Small& small, Unary make, UnaryInPlace write) {
  if (!compute_small_unary(kernel, small)) compute_unary(kernel, make, write);
}

}  // namespace

extern constexpr OpDef kNeg = unary_op(
    "Neg", kNumberTypes,
    [](Kernel& k) {
      const auto small = []<typename T>(T x) { return static_cast<T>(-wrapping(x)); };
      compute_unary(k, small, at::neg, at::neg_);
    },
    [](const OpCall&, Grads g) -> Gradients { return {-g[0]}; });

extern constexpr OpDef kAbs = unary_op(
    "Abs", kNumberTypes,
    [](Kernel& k) {
      const auto small = []<typename T>(T x) {
        return std::signbit(static_cast<double>(x)) ? static_cast<T>(-wrapping(x)) : x;
      };
      compute_unary(k, small, at::abs, at::abs_);
    },
    [](const OpCall& call, Grads g) -> Gradients { return {g[0] * sign(call.inputs[0])}; });

extern constexpr OpDef kSign = unary_op(
    "Sign", kNumberTypes,
    [](Kernel& k) {
      compute_unary(k, at::sgn, [](at::Tensor& x) -> at::Tensor& { return x.sgn_(); });
    },
    no_influence);

extern constexpr OpDef kSquare = unary_op(
    "Square", kNumberTypes,
    [](Kernel& k) {
      const auto small = []<typename T>(T x) { return static_cast<T>(wrapping(x) * wrapping(x)); };
      compute_unary(
          k, small, [](const at::Tensor& x) { return at::mul(x, x); },
          [](at::Tensor& x) -> at::Tensor& { return x.mul_(x); });
    },
    [](const OpCall& call, Grads g) -> Gradients { return {g[0] * call.inputs[0] * 2}; });

extern constexpr OpDef kExp = unary_op(
    "Exp", kFloatTypes, [](Kernel& k) { compute_unary(k, at::exp, at::exp_); },
    [](const OpCall& call, Grads g) -> Gradients { return {g[0] * call.outputs[0]}; });

extern constexpr OpDef kExpm1 = unary_op(
    "Expm1", kFloatTypes, [](Kernel& k) { compute_unary(k, at::expm1, at::expm1_); },
    [](const OpCall& call, Grads g) -> Gradients { return {g[0] * (call.outputs[0] + 1)}; });

extern constexpr OpDef kLog = unary_op(
    "Log", kFloatTypes, [](Kernel& k) { compute_unary(k, at::log, at::log_); },
    [](const OpCall& call, Grads g) -> Gradients { return {g[0] / call.inputs[0]}; });

extern constexpr OpDef kLog1p = unary_op(
    "Log1p", kFloatTypes, [](Kernel& k) { compute_unary(k, at::log1p, at::log1p_); },
    [](const OpCall& call, Grads g) -> Gradients { return {g[0] / (call.inputs[0] + 1)}; });

extern constexpr OpDef kSqrt = unary_op(
    "Sqrt", kFloatTypes, [](Kernel& k) { compute_unary(k, at::sqrt, at::sqrt_); },
    [](const OpCall& call, Grads g) -> Gradients { return {g[0] * 0.5 / call.outputs[0]}; });

extern constexpr OpDef kRsqrt = unary_op(
    "Rsqrt", kFloatTypes, [](Kernel& k) { compute_unary(k, at::rsqrt, at::rsqrt_); },
    [](const OpCall& call, Grads g) -> Gradients {
      return {g[0] * -0.5 * call.outputs[0] / call.inputs[0]};
    });

extern constexpr OpDef kReciprocal = unary_op(
    "Reciprocal", kFloatTypes, [](Kernel& k) { compute_unary(k, at::reciprocal, at::reciprocal_); },
    [](const OpCall& call, Grads g) -> Gradients { return {-g[0] * square(call.outputs[0])}; });

extern constexpr OpDef kSin = unary_op(
    "Sin", kFloatTypes, [](Kernel& k) { compute_unary(k, at::sin, at::sin_); },
    [](const OpCall& call, Grads g) -> Gradients { return {g[0] * cos(call.inputs[0])}; });

extern constexpr OpDef kCos = unary_op(
    "Cos", kFloatTypes, [](Kernel& k) { compute_unary(k, at::cos, at::cos_); },
    [](const OpCall& call, Grads g) -> Gradients { return {-g[0] * sin(call.inputs[0])}; });

extern constexpr OpDef kTanh = unary_op(
    "Tanh", kFloatTypes, [](Kernel& k) { compute_unary(k, at::tanh, at::tanh_); },
    [](const OpCall& call, Grads g) -> Gradients {
      return {g[0] * (1 - square(call.outputs[0]))};
    });

extern constexpr OpDef kSigmoid = unary_op(
    "Sigmoid", kFloatTypes, [](Kernel& k) { compute_unary(k, at::sigmoid, at::sigmoid_); },
    [](const OpCall& call, Grads g) -> Gradients {
      return {g[0] * call.outputs[0] * (1 - call.outputs[0])};
    });

extern constexpr OpDef kErf = unary_op(
    "Erf", kFloatTypes, [](Kernel& k) { compute_unary(k, at::erf, at::erf_); },
    [](const OpCall& call, Grads g) -> Gradients {
      return {g[0] * exp(-square(call.inputs[0])) * M_2_SQRTPI};
    });

extern constexpr OpDef kFloor = unary_op(
    "Floor", kFloatTypes, [](Kernel& k) { compute_unary(k, at::floor, at::floor_); }, no_influence);

extern constexpr OpDef kCeil = unary_op(
    "Ceil", kFloatTypes, [](Kernel& k) { compute_unary(k, at::ceil, at::ceil_); }, no_influence);

extern constexpr OpDef kRound = unary_op(
    "Round", kFloatTypes, [](Kernel& k) { compute_unary(k, at::round, at::round_); }, no_influence);

extern constexpr OpDef kIsNan = test_op("IsNan", [](Kernel& k) { set(k, at::isnan(in(k))); });

extern constexpr OpDef kIsFinite =
    test_op("IsFinite", [](Kernel& k) { set(k, at::isfinite(in(k))); });

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

using internal::apply;

Tensor cast(const Tensor& x, DType dtype, Site site) {
  if (x.defined() && x.dtype() == dtype && !internal::body(x).weak) return x;
  return internal::apply(internal::kCast, {x}, {{"dtype", dtype}}, site);
}

Tensor neg(const Tensor& x, Site site) { return apply(internal::kNeg, {x}, {}, site); }
Tensor abs(const Tensor& x, Site site) { return apply(internal::kAbs, {x}, {}, site); }
Tensor sign(const Tensor& x, Site site) { return apply(internal::kSign, {x}, {}, site); }
Tensor square(const Tensor& x, Site site) { return apply(internal::kSquare, {x}, {}, site); }
Tensor exp(const Tensor& x, Site site) { return apply(internal::kExp, {x}, {}, site); }
Tensor expm1(const Tensor& x, Site site) { return apply(internal::kExpm1, {x}, {}, site); }
Tensor log(const Tensor& x, Site site) { return apply(internal::kLog, {x}, {}, site); }
Tensor log1p(const Tensor& x, Site site) { return apply(internal::kLog1p, {x}, {}, site); }
Tensor sqrt(const Tensor& x, Site site) { return apply(internal::kSqrt, {x}, {}, site); }
Tensor rsqrt(const Tensor& x, Site site) { return apply(internal::kRsqrt, {x}, {}, site); }
Tensor reciprocal(const Tensor& x, Site site) {
  return apply(internal::kReciprocal, {x}, {}, site);
}
Tensor sin(const Tensor& x, Site site) { return apply(internal::kSin, {x}, {}, site); }
Tensor cos(const Tensor& x, Site site) { return apply(internal::kCos, {x}, {}, site); }
Tensor tanh(const Tensor& x, Site site) { return apply(internal::kTanh, {x}, {}, site); }
Tensor sigmoid(const Tensor& x, Site site) { return apply(internal::kSigmoid, {x}, {}, site); }
Tensor erf(const Tensor& x, Site site) { return apply(internal::kErf, {x}, {}, site); }
Tensor floor(const Tensor& x, Site site) { return apply(internal::kFloor, {x}, {}, site); }
Tensor ceil(const Tensor& x, Site site) { return apply(internal::kCeil, {x}, {}, site); }
Tensor round(const Tensor& x, Site site) { return apply(internal::kRound, {x}, {}, site); }
Tensor is_nan(const Tensor& x, Site site) { return apply(internal::kIsNan, {x}, {}, site); }
Tensor is_finite(const Tensor& x, Site site) { return apply(internal::kIsFinite, {x}, {}, site); }

}  // namespace cohort
