// Functions of one tensor, element by element.

#include <cmath>

#include "cohort/ops.h"
#include "ops/in_place.h"
#include "ops/small.h"

namespace cohort {
namespace internal {
namespace {

using Grads = std::span<const Tensor>;

Specs infer_bool(const OpInputs& inputs) { return {{kBool, inputs.shape(0)}}; }

constexpr std::string_view kTruth = "its result is a truth value";

// By `small` for a few elements, else by the kernel library.
template <typename Small>
void compute_unary(Kernel& kernel, const Small& small, Unary make, UnaryInPlace write) {
  if (!compute_small_unary(kernel, small)) compute_unary(kernel, make, write);
}

}  // namespace

extern constexpr OpDef kNeg{
    .name = "Neg",
    .inputs = 1,
    .dtypes = kNumberTypes,
    .infer = infer_same,
    .compute =
        [](Kernel& k) {
          const auto small = []<typename T>(T x) { return static_cast<T>(-wrapping(x)); };
          compute_unary(k, small, at::neg, at::neg_);
        },
    .gradient = [](const OpCall&, Grads g) -> Gradients { return {-g[0]}; },
};

extern constexpr OpDef kAbs{
    .name = "Abs",
    .inputs = 1,
    .dtypes = kNumberTypes,
    .infer = infer_same,
    .compute =
        [](Kernel& k) {
          const auto small = []<typename T>(T x) {
            return std::signbit(static_cast<double>(x)) ? static_cast<T>(-wrapping(x)) : x;
          };
          compute_unary(k, small, at::abs, at::abs_);
        },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      return {g[0] * sign(call.inputs[0])};
    },
};

extern constexpr OpDef kSign{
    .name = "Sign",
    .inputs = 1,
    .dtypes = kNumberTypes,
    .infer = infer_same,
    .compute =
        [](Kernel& k) {
          compute_unary(k, at::sgn, [](at::Tensor& x) -> at::Tensor& { return x.sgn_(); });
        },
    .gradient = no_influence,
};

extern constexpr OpDef kSquare{
    .name = "Square",
    .inputs = 1,
    .dtypes = kNumberTypes,
    .infer = infer_same,
    .compute =
        [](Kernel& k) {
          const auto small = []<typename T>(T x) {
            return static_cast<T>(wrapping(x) * wrapping(x));
          };
          compute_unary(
              k, small, [](const at::Tensor& x) { return at::mul(x, x); },
              [](at::Tensor& x) -> at::Tensor& { return x.mul_(x); });
        },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      return {g[0] * call.inputs[0] * 2};
    },
};

extern constexpr OpDef kExp{
    .name = "Exp",
    .inputs = 1,
    .dtypes = kFloatTypes,
    .infer = infer_same,
    .compute = [](Kernel& k) { compute_unary(k, at::exp, at::exp_); },
    .gradient = [](const OpCall& call, Grads g) -> Gradients { return {g[0] * call.outputs[0]}; },
};

extern constexpr OpDef kLog{
    .name = "Log",
    .inputs = 1,
    .dtypes = kFloatTypes,
    .infer = infer_same,
    .compute = [](Kernel& k) { compute_unary(k, at::log, at::log_); },
    .gradient = [](const OpCall& call, Grads g) -> Gradients { return {g[0] / call.inputs[0]}; },
};

extern constexpr OpDef kLog1p{
    .name = "Log1p",
    .inputs = 1,
    .dtypes = kFloatTypes,
    .infer = infer_same,
    .compute = [](Kernel& k) { compute_unary(k, at::log1p, at::log1p_); },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      return {g[0] / (call.inputs[0] + 1)};
    },
};

extern constexpr OpDef kSqrt{
    .name = "Sqrt",
    .inputs = 1,
    .dtypes = kFloatTypes,
    .infer = infer_same,
    .compute = [](Kernel& k) { compute_unary(k, at::sqrt, at::sqrt_); },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      return {g[0] * 0.5 / call.outputs[0]};
    },
};

extern constexpr OpDef kRsqrt{
    .name = "Rsqrt",
    .inputs = 1,
    .dtypes = kFloatTypes,
    .infer = infer_same,
    .compute = [](Kernel& k) { compute_unary(k, at::rsqrt, at::rsqrt_); },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      return {g[0] * -0.5 * call.outputs[0] / call.inputs[0]};
    },
};

extern constexpr OpDef kReciprocal{
    .name = "Reciprocal",
    .inputs = 1,
    .dtypes = kFloatTypes,
    .infer = infer_same,
    .compute = [](Kernel& k) { compute_unary(k, at::reciprocal, at::reciprocal_); },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      return {-g[0] * square(call.outputs[0])};
    },
};

extern constexpr OpDef kSin{
    .name = "Sin",
    .inputs = 1,
    .dtypes = kFloatTypes,
    .infer = infer_same,
    .compute = [](Kernel& k) { compute_unary(k, at::sin, at::sin_); },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      return {g[0] * cos(call.inputs[0])};
    },
};

extern constexpr OpDef kCos{
    .name = "Cos",
    .inputs = 1,
    .dtypes = kFloatTypes,
    .infer = infer_same,
    .compute = [](Kernel& k) { compute_unary(k, at::cos, at::cos_); },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      return {-g[0] * sin(call.inputs[0])};
    },
};

extern constexpr OpDef kTanh{
    .name = "Tanh",
    .inputs = 1,
    .dtypes = kFloatTypes,
    .infer = infer_same,
    .compute = [](Kernel& k) { compute_unary(k, at::tanh, at::tanh_); },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      return {g[0] * (1 - square(call.outputs[0]))};
    },
};

extern constexpr OpDef kSigmoid{
    .name = "Sigmoid",
    .inputs = 1,
    .dtypes = kFloatTypes,
    .infer = infer_same,
    .compute = [](Kernel& k) { compute_unary(k, at::sigmoid, at::sigmoid_); },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      return {g[0] * call.outputs[0] * (1 - call.outputs[0])};
    },
};

extern constexpr OpDef kErf{
    .name = "Erf",
    .inputs = 1,
    .dtypes = kFloatTypes,
    .infer = infer_same,
    .compute = [](Kernel& k) { compute_unary(k, at::erf, at::erf_); },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      return {g[0] * exp(-square(call.inputs[0])) * M_2_SQRTPI};
    },
};

extern constexpr OpDef kFloor{
    .name = "Floor",
    .inputs = 1,
    .dtypes = kFloatTypes,
    .infer = infer_same,
    .compute = [](Kernel& k) { compute_unary(k, at::floor, at::floor_); },
    .gradient = no_influence,
};

extern constexpr OpDef kCeil{
    .name = "Ceil",
    .inputs = 1,
    .dtypes = kFloatTypes,
    .infer = infer_same,
    .compute = [](Kernel& k) { compute_unary(k, at::ceil, at::ceil_); },
    .gradient = no_influence,
};

extern constexpr OpDef kRound{
    .name = "Round",
    .inputs = 1,
    .dtypes = kFloatTypes,
    .infer = infer_same,
    .compute = [](Kernel& k) { compute_unary(k, at::round, at::round_); },
    .gradient = no_influence,
};

extern constexpr OpDef kIsNan{
    .name = "IsNan",
    .inputs = 1,
    .dtypes = kFloatTypes,
    .infer = infer_bool,
    .compute = [](Kernel& k) { set(k, at::isnan(in(k))); },
    .gradient = nullptr,
    .no_gradient_because = kTruth,
};

extern constexpr OpDef kIsFinite{
    .name = "IsFinite",
    .inputs = 1,
    .dtypes = kFloatTypes,
    .infer = infer_bool,
    .compute = [](Kernel& k) { set(k, at::isfinite(in(k))); },
    .gradient = nullptr,
    .no_gradient_because = kTruth,
};

}  // namespace internal

using internal::apply;

Tensor neg(const Tensor& x, Site site) { return apply(internal::kNeg, {x}, {}, site); }
Tensor abs(const Tensor& x, Site site) { return apply(internal::kAbs, {x}, {}, site); }
Tensor sign(const Tensor& x, Site site) { return apply(internal::kSign, {x}, {}, site); }
Tensor square(const Tensor& x, Site site) { return apply(internal::kSquare, {x}, {}, site); }
Tensor exp(const Tensor& x, Site site) { return apply(internal::kExp, {x}, {}, site); }
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
