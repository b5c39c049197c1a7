// How element-wise ops compute, and the arithmetic of two tensors, element by element.

#include "ops/elementwise.h"

#include <ATen/ExpandUtils.h>

#include "base/raise.h"
#include "cohort/ops.h"
#include "ops/dispatch.h"
#include "tensor/memory.h"

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

Tensor converted(const Tensor& x, DType dtype, Site site) {
  return body(x).dtype == dtype ? x : cast(x, dtype, site);
}

}  // namespace

bool is_exclusive(const Tensor& value) {
  const at::Tensor& held = aten(value);
  // A small value is made anew sooner than it is written over; other plain memory is not ours.
  const bool plain = !static_cast<const NumericBody&>(body(value)).value.defined();
  if (plain || TensorAccess::shared(value).use_count() != 1 || held.use_count() != 1 ||
      held.storage().use_count() != 1 || held.storage().allocator() == nullptr ||
      !held.is_contiguous() || is_awaited_by_device(value)) {
    return false;
  }
  // use_count() alone does not order what other threads read before they let go; giving up a
  // reference of our own does.
  [[maybe_unused]] const Tensor ordered = value;
  return true;
}

bool may_overwrite(const Kernel& kernel, size_t i) {
  // Who looks for the op that made a NaN needs the inputs as they were.
  return kernel.run != nullptr && is_exclusive(kernel.inputs[i]) && !numerics_guarded();
}

void set_overwritten(Kernel& kernel, size_t i) {
  const auto& held = static_cast<const NumericBody&>(body(kernel.inputs[i]));
  const bool fits = !held.weak && !held.dense.defined() && held.device == &value_device();
  kernel.outputs[0] = fits ? kernel.inputs[i] : from_aten(held.value);
}

void compute_binary(Kernel& kernel, Binary make, BinaryInto write) {
  const at::Tensor& a = in(kernel, 0);
  const at::Tensor& b = in(kernel, 1);
  const bool over_b = !at::is_expandable_to(b.sizes(), a.sizes()) || !may_overwrite(kernel, 0);
  if (over_b && !at::is_expandable_to(a.sizes(), b.sizes())) {
    set(kernel, make(a, b));
    return;
  }
  compute_over(
      kernel, over_b ? 1 : 0, [&] { return make(a, b); },
      [&](at::Tensor& memory) { write(memory, a, b); });
}

Pair promoted(std::string_view op, const Tensor& a, const Tensor& b, Site site) {
  if (!a.defined() || !b.defined()) return {a, b};  // apply() names the one that is missing
  const TensorBody& left = body(a);
  const TensorBody& right = body(b);
  if (left.dtype == right.dtype) return {a, b};
  const DType dtype = common_dtype(op, left, right);
  return {converted(a, dtype, site), converted(b, dtype, site)};
}

Tensor apply_promoted(const OpDef& op, const Tensor& a, const Tensor& b, Site site) {
  Pair pair = promoted(op.name, a, b, site);
  return apply(op, {std::move(pair.a), std::move(pair.b)}, {}, site);
}

const std::byte* few_elements(const Tensor& input) {
  const TensorBody& held = body(input);
  if (held.kind != TensorBody::Kind::Numeric || !kSmallTypes.has(held.dtype) ||
      !is_small(held.dtype, held.shape.num_elements())) {
    return nullptr;
  }
  const auto& numeric = static_cast<const NumericBody&>(held);
  if (const std::byte* bytes = plain_bytes(numeric)) return bytes;
  return aten(input).is_cpu() ? element_bytes(input) : nullptr;
}

bool pair_up(const Shape& a, const Shape& b) { return a.rank() == 0 || b.rank() == 0 || a == b; }

void check_divisor(std::string_view op, const at::Tensor& divisor) {
  if (divisor.is_floating_point() || divisor.numel() == 0) return;
  if (divisor.eq(0).any().item<bool>()) {
    raise(Code::InvalidArgument, "[{}] an integer is divided by zero", op);
  }
}

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
      check_divisor("FloorDiv", in(k, 1));
      compute_binary(k, at::floor_divide, at::floor_divide_out);
    },
    no_influence);

extern constexpr OpDef kMod = binary_op(
    "Mod", kNumberTypes,
    [](Kernel& k) {
      check_divisor("Mod", in(k, 1));
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
  const internal::Pair pair = internal::promoted("Div", a, b, site);
  if (!pair.a.defined() || is_floating(pair.a.dtype()) || !is_numeric(pair.a.dtype())) {
    return internal::apply(internal::kDiv, {pair.a, pair.b}, {}, site);
  }
  const DType dtype = internal::division_dtype(pair.a.dtype());
  return internal::apply(internal::kDiv, {cast(pair.a, dtype, site), cast(pair.b, dtype, site)}, {},
                         site);
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
