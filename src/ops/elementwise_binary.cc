// Arithmetic of two tensors, element by element.

#include "base/raise.h"
#include "cohort/ops.h"
#include "ops/elementwise.h"

namespace cohort {
namespace internal {
namespace {

// One gradient per input, each summed over what was broadcast.
Gradients of_both(const OpCall& call, const Tensor& a_gradient, const Tensor& b_gradient) {
  return {sum_like(a_gradient, call.inputs[0]), sum_like(b_gradient, call.inputs[1])};
}

// The share of `g` that goes to the input that holds the extreme; equal inputs get half each.
Gradients of_extreme(const OpCall& call, const Tensor& g, const Tensor& a_wins) {
  const Tensor& a = call.inputs[0];
  const Tensor& b = call.inputs[1];
  const Tensor share = cast(a_wins, g.dtype()) - cast(equal(a, b), g.dtype()) * 0.5;
  return of_both(call, g * share, g * (1 - share));
}

void check_divisor(const Kernel& kernel, std::string_view op) {
  const at::Tensor& divisor = in(kernel, 1);
  if (divisor.is_floating_point() || divisor.numel() == 0) return;
  if (divisor.eq(0).any().item<bool>()) {
    raise(Code::InvalidArgument, "[{}] an integer is divided by zero", op);
  }
}

// The kernel library's own take a factor as well.
at::Tensor sum_of(const at::Tensor& a, const at::Tensor& b) { return at::add(a, b); }
at::Tensor& sum_into(at::Tensor& out, const at::Tensor& a, const at::Tensor& b) {
  return at::add_out(out, a, b);
}
at::Tensor difference_of(const at::Tensor& a, const at::Tensor& b) { return at::sub(a, b); }
at::Tensor& difference_into(at::Tensor& out, const at::Tensor& a, const at::Tensor& b) {
  return at::sub_out(out, a, b);
}

// By `small` for a few elements, else by the kernel library.
template <typename Small>
void compute_binary(Kernel& kernel, const Small& small, Binary make, BinaryInto write) {
  if (!compute_small_binary(kernel, small)) compute_binary(kernel, make, write);
}

constexpr auto kPlus = []<typename T>(T a, T b) {
  return static_cast<T>(wrapping(a) + wrapping(b));
};
constexpr auto kMinus = []<typename T>(T a, T b) {
  return static_cast<T>(wrapping(a) - wrapping(b));
};
constexpr auto kTimes = []<typename T>(T a, T b) {
  return static_cast<T>(wrapping(a) * wrapping(b));
};
constexpr auto kRatio = []<typename T>(T a, T b) {
  return std::floating_point<T> ? a / b : T{};  // the op takes no integers
};
// What is not a number wins.
constexpr auto kSmaller = []<typename T>(T a, T b) { return a != a || a < b ? a : b; };
constexpr auto kLarger = []<typename T>(T a, T b) { return a != a || a > b ? a : b; };

}  // namespace

extern constexpr OpDef kAdd = binary_op(
    "Add", kNumericTypes, [](Kernel& k) { compute_binary(k, kPlus, sum_of, sum_into); },
    [](const OpCall& call, Grads g) { return of_both(call, g[0], g[0]); });

extern constexpr OpDef kSub = binary_op(
    "Sub", kNumberTypes,
    [](Kernel& k) { compute_binary(k, kMinus, difference_of, difference_into); },
    [](const OpCall& call, Grads g) { return of_both(call, g[0], -g[0]); });

extern constexpr OpDef kMul = binary_op(
    "Mul", kNumericTypes, [](Kernel& k) { compute_binary(k, kTimes, at::mul, at::mul_out); },
    [](const OpCall& call, Grads g) {
      return of_both(call, g[0] * call.inputs[1], g[0] * call.inputs[0]);
    });

extern constexpr OpDef kDiv = binary_op(
    "Div", kFloatTypes, [](Kernel& k) { compute_binary(k, kRatio, at::div, at::div_out); },
    [](const OpCall& call, Grads g) {
      const Tensor a_gradient = g[0] / call.inputs[1];
      return of_both(call, a_gradient, -a_gradient * call.outputs[0]);
    });

extern constexpr OpDef kFloorDiv = binary_op(
    "FloorDiv", kNumberTypes,
    [](Kernel& k) {
      check_divisor(k, "FloorDiv");
      compute_binary(k, at::floor_divide, at::floor_divide_out);
    },
    no_influence);

extern constexpr OpDef kMod = binary_op(
    "Mod", kNumberTypes,
    [](Kernel& k) {
      check_divisor(k, "Mod");
      compute_binary(k, at::remainder, at::remainder_out);
    },
    [](const OpCall& call, Grads g) {
      return of_both(call, g[0], -g[0] * floor(call.inputs[0] / call.inputs[1]));
    });

extern constexpr OpDef kPow = binary_op(
    "Pow", kNumberTypes, [](Kernel& k) { compute_binary(k, at::pow, at::pow_out); },
    [](const OpCall& call, Grads g) {
      const Tensor& base = call.inputs[0];
      const Tensor& exponent = call.inputs[1];
      // 0^0 has slope 0 in the base; the slope in the exponent at base <= 0 is taken as 0.
      const Tensor base_slope =
          where(exponent == 0, zeros_like(base), exponent * pow(base, exponent - 1));
      const Tensor safe_log = log(where(base > 0, base, ones_like(base)));
      return of_both(call, g[0] * base_slope, g[0] * call.outputs[0] * safe_log);
    });

extern constexpr OpDef kMinimum = binary_op(
    "Minimum", kNumberTypes,
    [](Kernel& k) { compute_binary(k, kSmaller, at::minimum, at::minimum_out); },
    [](const OpCall& call, Grads g) {
      return of_extreme(call, g[0], call.inputs[0] <= call.inputs[1]);
    });

extern constexpr OpDef kMaximum = binary_op(
    "Maximum", kNumberTypes,
    [](Kernel& k) { compute_binary(k, kLarger, at::maximum, at::maximum_out); },
    [](const OpCall& call, Grads g) {
      return of_extreme(call, g[0], call.inputs[0] >= call.inputs[1]);
    });

}  // namespace internal

using internal::apply_promoted;

Tensor add(const Tensor& a, const Tensor& b, Site site) {
  return apply_promoted(internal::kAdd, a, b, site);
}
Tensor sub(const Tensor& a, const Tensor& b, Site site) {
  return apply_promoted(internal::kSub, a, b, site);
}
Tensor mul(const Tensor& a, const Tensor& b, Site site) {
  return apply_promoted(internal::kMul, a, b, site);
}
Tensor div(const Tensor& a, const Tensor& b, Site site) {
  const internal::Pair pair = internal::promoted("Div", a, b);
  if (!pair.a.defined() || is_floating(pair.a.dtype()) || !is_numeric(pair.a.dtype())) {
    return internal::apply(internal::kDiv, {pair.a, pair.b}, {}, site);
  }
  const DType dtype = internal::division_dtype(pair.a.dtype());
  return internal::apply(internal::kDiv, {cast(pair.a, dtype), cast(pair.b, dtype)}, {}, site);
}
Tensor floor_div(const Tensor& a, const Tensor& b, Site site) {
  return apply_promoted(internal::kFloorDiv, a, b, site);
}
Tensor mod(const Tensor& a, const Tensor& b, Site site) {
  return apply_promoted(internal::kMod, a, b, site);
}
Tensor pow(const Tensor& base, const Tensor& exponent, Site site) {
  return apply_promoted(internal::kPow, base, exponent, site);
}
Tensor minimum(const Tensor& a, const Tensor& b, Site site) {
  return apply_promoted(internal::kMinimum, a, b, site);
}
Tensor maximum(const Tensor& a, const Tensor& b, Site site) {
  return apply_promoted(internal::kMaximum, a, b, site);
}
Tensor clip(const Tensor& x, const Tensor& low, const Tensor& high, Site site) {
  return minimum(maximum(x, low, site), high, site);
}

}  // namespace cohort
