// Activations: element by element, with fused gradients where the kernel library has them.

#include <cmath>

#include "cohort/nn_ops.h"
#include "ops/elementwise.h"
#include "ops/kernel.h"

namespace cohort {
namespace internal {
namespace {

// A gradient op: (gradient of the output, what the forward op saw or gave).
Specs infer_grad(const OpInputs& inputs) {
  require_same_dtype(inputs);
  return {{inputs.dtype(0), require_same_shape(inputs, 0, 1)}};
}

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

// make(x) computes an activation; write(x) does so in place.
template <typename Make, typename Write>
void compute_activation(Kernel& k, const Make& make, const Write& write) {
  const at::Tensor& x = in(k);
  if (is_narrow(x)) {
    set_narrowed(k, make(widened(x)));
    return;
  }
  compute_over(
      k, 0, [&] { return make(x); }, write);
}

}  // namespace

extern constexpr OpDef kReluGrad{
    .name = "ReluGrad",
    .inputs = 2,  // (g, y)
    .dtypes = kFloatTypes,
    .infer = infer_grad,
    .compute =
        [](Kernel& k) {
          compute_grad(
              k, [](const auto& g, const auto& y) { return at::threshold_backward(g, y, 0); },
              [](auto& out, auto& g, auto& y) { at::threshold_backward_out(out, g, y, 0); });
        },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      return {apply(kReluGrad, {g[0], call.inputs[1]}), {}};
    },
    .traits = Trait::OneDType,
};

extern constexpr OpDef kRelu = unary_op(
    "Relu", kFloatTypes, [](Kernel& k) { compute_unary(k, at::relu, at::relu_); },
    [](const OpCall& call, Grads g) -> Gradients {
      return {apply(kReluGrad, {g[0], call.outputs[0]})};
    });

extern constexpr OpDef kRelu6Grad{
    .name = "Relu6Grad",
    .inputs = 2,  // (g, x)
    .dtypes = kFloatTypes,
    .infer = infer_grad,
    .compute =
        [](Kernel& k) {
          compute_grad(
              k, [](const auto& g, const auto& x) { return at::hardtanh_backward(g, x, 0, 6); },
              [](auto& out, auto& g, auto& x) { at::hardtanh_backward_out(out, g, x, 0, 6); });
        },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      return {apply(kRelu6Grad, {g[0], call.inputs[1]}), {}};
    },
    .traits = Trait::OneDType,
};

extern constexpr OpDef kRelu6 = unary_op(
    "Relu6", kFloatTypes,
    [](Kernel& k) {
      compute_activation(
          k, [](const auto& x) { return at::clamp(x, 0, 6); },
          [](auto& x) { at::clamp_(x, 0, 6); });
    },
    [](const OpCall& call, Grads g) -> Gradients {
      return {apply(kRelu6Grad, {g[0], call.inputs[0]})};
    });

extern constexpr OpDef kLeakyReluGrad{
    .name = "LeakyReluGrad",
    .inputs = 2,  // (g, x)
    .dtypes = kFloatTypes,
    .attrs = {{"slope", AttrKind::Float}},
    .infer = infer_grad,
    .compute =
        [](Kernel& k) {
          const double slope = k.attrs.number("slope");
          compute_grad(
              k,
              [&](const auto& g, const auto& x) {
                return at::leaky_relu_backward(g, x, slope, false);
              },
              [&](auto& out, auto& g, auto& x) {
                at::leaky_relu_backward_out(out, g, x, slope, false);
              });
        },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      return {apply(kLeakyReluGrad, {g[0], call.inputs[1]}, call.attrs), {}};
    },
    .traits = Trait::OneDType,
};

extern constexpr OpDef kLeakyRelu{
    .name = "LeakyRelu",
    .inputs = 1,
    .dtypes = kFloatTypes,
    .attrs = {{"slope", AttrKind::Float}},
    .infer = infer_same,
    .compute =
        [](Kernel& k) {
          const double slope = k.attrs.number("slope");
          compute_activation(
              k, [&](const auto& x) { return at::leaky_relu(x, slope); },
              [&](auto& x) { at::leaky_relu_(x, slope); });
        },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      return {apply(kLeakyReluGrad, {g[0], call.inputs[0]}, call.attrs)};
    },
};

extern constexpr OpDef kEluGrad{
    .name = "EluGrad",
    .inputs = 2,  // (g, x)
    .dtypes = kFloatTypes,
    .attrs = {{"alpha", AttrKind::Float}},
    .infer = infer_grad,
    .compute =
        [](Kernel& k) {
          const double alpha = k.attrs.number("alpha");
          compute_grad(
              k,
              [&](const auto& g, const auto& x) {
                return at::elu_backward(g, alpha, 1, 1, false, x);
              },
              [&](auto& out, auto& g, auto& x) {
                at::elu_backward_out(out, g, alpha, 1, 1, false, x);
              });
        },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      const Tensor& x = call.inputs[1];
      const Tensor curve = exp(minimum(x, 0)) * call.attrs.number("alpha");
      return {apply(kEluGrad, {g[0], x}, call.attrs),
              where(x < 0, g[0] * call.inputs[0] * curve, 0)};
    },
    .traits = Trait::OneDType,
};

extern constexpr OpDef kElu{
    .name = "Elu",
    .inputs = 1,
    .dtypes = kFloatTypes,
    .attrs = {{"alpha", AttrKind::Float}},
    .infer = infer_same,
    .compute =
        [](Kernel& k) {
          const double alpha = k.attrs.number("alpha");
          compute_activation(
              k, [&](const auto& x) { return at::elu(x, alpha); },
              [&](auto& x) { at::elu_(x, alpha); });
        },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      return {apply(kEluGrad, {g[0], call.inputs[0]}, call.attrs)};
    },
};

extern constexpr OpDef kGeluGrad{
    .name = "GeluGrad",
    .inputs = 2,  // (g, x)
    .dtypes = kFloatTypes,
    .infer = infer_grad,
    .compute =
        [](Kernel& k) {
          compute_grad(
              k, [](const auto& g, const auto& x) { return at::gelu_backward(g, x); },
              [](auto& out, auto& g, auto& x) { at::gelu_backward_out(out, g, x); });
        },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      const Tensor& x = call.inputs[1];
      // With the normal density d, the second derivative is d(x) * (2 - x^2).
      const Tensor density = exp(square(x) * -0.5) * (0.5 * M_2_SQRTPI * M_SQRT1_2);
      return {apply(kGeluGrad, {g[0], x}), g[0] * call.inputs[0] * density * (2 - square(x))};
    },
    .traits = Trait::OneDType,
};

extern constexpr OpDef kGelu = unary_op(
    "Gelu", kFloatTypes,
    [](Kernel& k) {
      compute_activation(
          k, [](const auto& x) { return at::gelu(x); }, [](auto& x) { at::gelu_(x); });
    },
    [](const OpCall& call, Grads g) -> Gradients {
      return {apply(kGeluGrad, {g[0], call.inputs[0]})};
    });

extern constexpr OpDef kSoftplus{
    .name = "Softplus",
    .inputs = 1,
    .dtypes = kFloatTypes,
    .infer = infer_same,
    // Above 40 even a double cannot tell log(1 + exp(x)) from x.
    .compute =
        [](Kernel& k) {
          compute_activation(
              k, [](const auto& x) { return at::softplus(x, 1, 40); },
              [](auto& x) { at::softplus_out(x, x, 1, 40); });
        },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      return {g[0] * sigmoid(call.inputs[0])};
    },
};

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

}  // namespace nn::functions
}  // namespace cohort
