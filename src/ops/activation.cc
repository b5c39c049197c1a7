// Activations: element by element, with fused gradients where the kernel library has them, and the
// softmax along an axis.

#include <cmath>

#include "cohort/nn_ops.h"
#include "ops/elementwise.h"
#include "ops/kernel.h"

namespace cohort {
namespace internal {
namespace {

// A gradient op: (gradient of the output, what the forward op saw or gave).
constexpr OpDef gradient_op(std::string_view name, Compute compute, GradientOf gradient,
                            const AttrList& attrs = {}) {
  return {.name = name,
          .inputs = 2,
          .dtypes = kFloatTypes,
          .attrs = attrs,
          .infer = infer_alike,
          .compute = compute,
          .gradient = gradient,
          .traits = Trait::OneDType};
}

// Of such an op whose slope is a constant almost everywhere.
Gradients of_slope(const OpCall& call, Grads g) {
  return {apply(*call.op, {g[0], call.inputs[1]}, call.attrs), {}};
}

constexpr AttrList kSlope{{"slope", AttrKind::Float}};
constexpr AttrList kAlpha{{"alpha", AttrKind::Float}};

// make(g, x) computes such an op; write(out, g, x) does so into the memory of one of its inputs.
template <typename Make, typename Write>
void compute_grad(Kernel& k, const Make& make, const Write& write) {
  const at::Tensor& g = in(k, 0);
  const at::Tensor& x = in(k, 1);
  if (is_narrow(g)) {
    set_narrowed(k, make(widened(g), widened(x)));
    return;
  }
  compute_over(
      k, may_overwrite(k, 0) ? 0 : 1, [&] { return make(g, x); },
      [&](at::Tensor& out) { write(out, g, x); });
}

}  // namespace

extern constexpr OpDef kReluGrad = gradient_op(
    "ReluGrad",  // (g, y)
    [](Kernel& k) {
      compute_grad(
          k, [](const auto& g, const auto& y) { return at::threshold_backward(g, y, 0); },
          [](auto& out, auto& g, auto& y) { at::threshold_backward_out(out, g, y, 0); });
    },
    of_slope);

extern constexpr OpDef kRelu = unary_op(
    "Relu", kFloatTypes, [](Kernel& k) { compute_unary(k, at::relu, at::relu_); },
    by_output<kReluGrad>);

extern constexpr OpDef kRelu6Grad = gradient_op(
    "Relu6Grad",  // (g, x), as all below
    [](Kernel& k) {
      compute_grad(
          k, [](const auto& g, const auto& x) { return at::hardtanh_backward(g, x, 0, 6); },
          [](auto& out, auto& g, auto& x) { at::hardtanh_backward_out(out, g, x, 0, 6); });
    },
    of_slope);

extern constexpr OpDef kRelu6 = unary_op(
    "Relu6", kFloatTypes,
    [](Kernel& k) {
      compute_unary(
          k, [](const auto& x) { return at::clamp(x, 0, 6); },
          [](auto& x) { at::clamp_(x, 0, 6); });
    },
    by_input<kRelu6Grad>);

extern constexpr OpDef kLeakyReluGrad = gradient_op(
    "LeakyReluGrad",
    [](Kernel& k) {
      const double slope = k.attrs.number("slope");
      compute_grad(
          k,
          [&](const auto& g, const auto& x) { return at::leaky_relu_backward(g, x, slope, false); },
          [&](auto& out, auto& g, auto& x) {
            at::leaky_relu_backward_out(out, g, x, slope, false);
          });
    },
    of_slope, kSlope);

extern constexpr OpDef kLeakyRelu = unary_op(
    "LeakyRelu", kFloatTypes,
    [](Kernel& k) {
      const double slope = k.attrs.number("slope");
      compute_unary(
          k, [&](const auto& x) { return at::leaky_relu(x, slope); },
          [&](auto& x) { at::leaky_relu_(x, slope); });
    },
    by_input<kLeakyReluGrad>, kSlope);

extern constexpr OpDef kEluGrad = gradient_op(
    "EluGrad",
    [](Kernel& k) {
      const double alpha = k.attrs.number("alpha");
      compute_grad(
          k,
          [&](const auto& g, const auto& x) { return at::elu_backward(g, alpha, 1, 1, false, x); },
          [&](auto& out, auto& g, auto& x) {
            at::elu_backward_out(out, g, alpha, 1, 1, false, x);
          });
    },
    [](const OpCall& call, Grads g) -> Gradients {
      const Tensor& x = call.inputs[1];
      const Tensor curve = exp(minimum(x, 0)) * call.attrs.number("alpha");
      return {apply(kEluGrad, {g[0], x}, call.attrs),
              where(x < 0, g[0] * call.inputs[0] * curve, 0)};
    },
    kAlpha);

extern constexpr OpDef kElu = unary_op(
    "Elu", kFloatTypes,
    [](Kernel& k) {
      const double alpha = k.attrs.number("alpha");
      compute_unary(
          k, [&](const auto& x) { return at::elu(x, alpha); },
          [&](auto& x) { at::elu_(x, alpha); });
    },
    by_input<kEluGrad>, kAlpha);

extern constexpr OpDef kGeluGrad = gradient_op(
    "GeluGrad",
    [](Kernel& k) {
      compute_grad(
          k, [](const auto& g, const auto& x) { return at::gelu_backward(g, x); },
          [](auto& out, auto& g, auto& x) { at::gelu_backward_out(out, g, x); });
    },
    [](const OpCall& call, Grads g) -> Gradients {
      const Tensor& x = call.inputs[1];
      // With the normal density d, the second derivative is d(x) * (2 - x^2).
      const Tensor density = exp(square(x) * -0.5) * (0.5 * M_2_SQRTPI * M_SQRT1_2);
      return {apply(kGeluGrad, {g[0], x}), g[0] * call.inputs[0] * density * (2 - square(x))};
    });

extern constexpr OpDef kGelu = unary_op(
    "Gelu", kFloatTypes,
    [](Kernel& k) {
      compute_unary(
          k, [](const auto& x) { return at::gelu(x); }, [](auto& x) { at::gelu_(x); });
    },
    by_input<kGeluGrad>);

// Above 40 even a double cannot tell log(1 + exp(x)) from x.
extern constexpr OpDef kSoftplus = unary_op(
    "Softplus", kFloatTypes,
    [](Kernel& k) {
      compute_unary(
          k, [](const auto& x) { return at::softplus(x, 1, 40); },
          [](auto& x) { at::softplus_out(x, x, 1, 40); });
    },
    [](const OpCall& call, Grads g) -> Gradients { return {g[0] * sigmoid(call.inputs[0])}; });

namespace {

Specs infer_softmax(const OpInputs& inputs) {
  require_rank_at_least(inputs.op, inputs.shape(0), 1, "the input");
  if (inputs.shape(0).has_rank()) {
    normalize_axis(inputs.op, inputs.attrs.integer("axis"), inputs.shape(0).rank());
  }
  return infer_same(inputs);
}

constexpr AttrList kAxis{{"axis", AttrKind::Int}};

constexpr OpDef softmax_op(std::string_view name, Compute compute, GradientOf gradient) {
  OpDef op = unary_op(name, kFloatTypes, compute, gradient, kAxis);
  op.infer = infer_softmax;
  return op;
}

constexpr OpDef softmax_grad_op(std::string_view name, Compute compute, GradientOf gradient) {
  OpDef op = gradient_op(name, compute, gradient, kAxis);
  op.infer = [](const OpInputs& inputs) -> Specs {
    require_same_dtype(inputs);
    infer_softmax(inputs);
    return infer_alike(inputs);
  };
  return op;
}

Tensor sum_along(const Tensor& x, const Attrs& attrs) {
  return sum(x, static_cast<int>(attrs.integer("axis")), KeepDims::Yes);
}

}  // namespace

// (g, y) -> y * (g - sum(g * y))
extern constexpr OpDef kSoftmaxGrad = softmax_grad_op(
    "SoftmaxGrad",
    [](Kernel& k) {
      const at::Tensor y = widened(in(k, 1));
      set_narrowed(k, at::_softmax_backward_data(widened(in(k, 0)), y, k.attrs.integer("axis"),
                                                 y.scalar_type()));
    },
    [](const OpCall& call, Grads g) -> Gradients {
      const Tensor& first = call.inputs[0];
      const Tensor& y = call.inputs[1];
      return {apply(kSoftmaxGrad, {g[0], y}, call.attrs),
              g[0] * (first - sum_along(first * y, call.attrs)) -
                  first * sum_along(g[0] * y, call.attrs)};
    });

extern constexpr OpDef kSoftmax = softmax_op(
    "Softmax",
    [](Kernel& k) {
      set_narrowed(k, at::_softmax(widened(in(k)), k.attrs.integer("axis"), false));
    },
    by_output<kSoftmaxGrad>);

// (g, y) -> g - exp(y) * sum(g)
extern constexpr OpDef kLogSoftmaxGrad = softmax_grad_op(
    "LogSoftmaxGrad",
    [](Kernel& k) {
      const at::Tensor y = widened(in(k, 1));
      set_narrowed(k, at::_log_softmax_backward_data(widened(in(k, 0)), y, k.attrs.integer("axis"),
                                                     y.scalar_type()));
    },
    [](const OpCall& call, Grads g) -> Gradients {
      const Tensor weighted = g[0] * exp(call.inputs[1]);
      return {g[0] - sum_along(weighted, call.attrs),
              -weighted * sum_along(call.inputs[0], call.attrs)};
    });

extern constexpr OpDef kLogSoftmax = softmax_op(
    "LogSoftmax",
    [](Kernel& k) {
      set_narrowed(k, at::_log_softmax(widened(in(k)), k.attrs.integer("axis"), false));
    },
    by_output<kLogSoftmaxGrad>);

}  // namespace internal

namespace nn::functions {

using cohort::internal::apply;

Tensor Relu::operator()(const Tensor& x, Site site) const {
  return apply(cohort::internal::kRelu, {x}, {}, site);
}
Tensor Relu6::operator()(const Tensor& x, Site site) const {
  return apply(cohort::internal::kRelu6, {x}, {}, site);
}
Tensor LeakyRelu::operator()(const Tensor& x, LeakyReluOptions options, Site site) const {
  return apply(cohort::internal::kLeakyRelu, {x}, {{"slope", options.slope}}, site);
}
Tensor Elu::operator()(const Tensor& x, EluOptions options, Site site) const {
  return apply(cohort::internal::kElu, {x}, {{"alpha", options.alpha}}, site);
}
Tensor Gelu::operator()(const Tensor& x, Site site) const {
  return apply(cohort::internal::kGelu, {x}, {}, site);
}
Tensor Softplus::operator()(const Tensor& x, Site site) const {
  return apply(cohort::internal::kSoftplus, {x}, {}, site);
}
Tensor Sigmoid::operator()(const Tensor& x, Site site) const { return cohort::sigmoid(x, site); }
Tensor Tanh::operator()(const Tensor& x, Site site) const { return cohort::tanh(x, site); }

Tensor Softmax::operator()(const Tensor& x, SoftmaxOptions options, Site site) const {
  return apply(cohort::internal::kSoftmax, {x}, {{"axis", int64_t{options.axis}}}, site);
}
Tensor LogSoftmax::operator()(const Tensor& x, SoftmaxOptions options, Site site) const {
  return apply(cohort::internal::kLogSoftmax, {x}, {{"axis", int64_t{options.axis}}}, site);
}

}  // namespace nn::functions
}  // namespace cohort
