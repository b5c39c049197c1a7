// Activations: element by element, with fused gradients where the kernel library has them.

#include <cmath>

#include "cohort/nn_ops.h"
#include "ops/nn_common.h"

namespace cohort {
namespace internal {
namespace {

using Grads = std::span<const Tensor>;

// A gradient op: (gradient of the output, what the forward op saw or gave).
Specs infer_grad(const OpInputs& inputs) {
  require_same_dtype(inputs);
  return {{inputs.dtype(0), require_same_shape(inputs, 0, 1)}};
}

}  // namespace

extern constexpr OpDef kReluGrad{
    .name = "ReluGrad",  // (g, y)
    .dtypes = kFloatTypes,
    .infer = infer_grad,
    .compute =
        [](Kernel& k) {
          set_narrowed(k, at::threshold_backward(widened(in(k, 0)), widened(in(k, 1)), 0));
        },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      return {apply(kReluGrad, {g[0], call.inputs[1]}), {}};
    },
};

extern constexpr OpDef kRelu{
    .name = "Relu",
    .dtypes = kFloatTypes,
    .infer = infer_same,
    .compute = [](Kernel& k) { set_narrowed(k, at::relu(widened(in(k)))); },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      return {apply(kReluGrad, {g[0], call.outputs[0]})};
    },
};

extern constexpr OpDef kRelu6Grad{
    .name = "Relu6Grad",  // (g, x)
    .dtypes = kFloatTypes,
    .infer = infer_grad,
    .compute =
        [](Kernel& k) {
          set_narrowed(k, at::hardtanh_backward(widened(in(k, 0)), widened(in(k, 1)), 0, 6));
        },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      return {apply(kRelu6Grad, {g[0], call.inputs[1]}), {}};
    },
};

extern constexpr OpDef kRelu6{
    .name = "Relu6",
    .dtypes = kFloatTypes,
    .infer = infer_same,
    .compute = [](Kernel& k) { set_narrowed(k, at::clamp(widened(in(k)), 0, 6)); },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      return {apply(kRelu6Grad, {g[0], call.inputs[0]})};
    },
};

extern constexpr OpDef kLeakyReluGrad{
    .name = "LeakyReluGrad",  // (g, x)
    .dtypes = kFloatTypes,
    .infer = infer_grad,
    .compute =
        [](Kernel& k) {
          set_narrowed(k, at::leaky_relu_backward(widened(in(k, 0)), widened(in(k, 1)),
                                                  k.attrs.number("slope"), false));
        },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      return {apply(kLeakyReluGrad, {g[0], call.inputs[1]}, call.attrs), {}};
    },
};

extern constexpr OpDef kLeakyRelu{
    .name = "LeakyRelu",
    .dtypes = kFloatTypes,
    .infer = infer_same,
    .compute =
        [](Kernel& k) { set_narrowed(k, at::leaky_relu(widened(in(k)), k.attrs.number("slope"))); },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      return {apply(kLeakyReluGrad, {g[0], call.inputs[0]}, call.attrs)};
    },
};

extern constexpr OpDef kEluGrad{
    .name = "EluGrad",  // (g, x)
    .dtypes = kFloatTypes,
    .infer = infer_grad,
    .compute =
        [](Kernel& k) {
          set_narrowed(k, at::elu_backward(widened(in(k, 0)), k.attrs.number("alpha"), 1, 1, false,
                                           widened(in(k, 1))));
        },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      const Tensor& x = call.inputs[1];
      const Tensor curve = exp(minimum(x, 0)) * call.attrs.number("alpha");
      return {apply(kEluGrad, {g[0], x}, call.attrs),
              where(x < 0, g[0] * call.inputs[0] * curve, 0)};
    },
};

extern constexpr OpDef kElu{
    .name = "Elu",
    .dtypes = kFloatTypes,
    .infer = infer_same,
    .compute = [](Kernel& k) { set_narrowed(k, at::elu(widened(in(k)), k.attrs.number("alpha"))); },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      return {apply(kEluGrad, {g[0], call.inputs[0]}, call.attrs)};
    },
};

extern constexpr OpDef kGeluGrad{
    .name = "GeluGrad",  // (g, x)
    .dtypes = kFloatTypes,
    .infer = infer_grad,
    .compute =
        [](Kernel& k) { set_narrowed(k, at::gelu_backward(widened(in(k, 0)), widened(in(k, 1)))); },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      const Tensor& x = call.inputs[1];
      // With the normal density d, the second derivative is d(x) * (2 - x^2).
      const Tensor density = exp(square(x) * -0.5) * (0.5 * M_2_SQRTPI * M_SQRT1_2);
      return {apply(kGeluGrad, {g[0], x}), g[0] * call.inputs[0] * density * (2 - square(x))};
    },
};

extern constexpr OpDef kGelu{
    .name = "Gelu",
    .dtypes = kFloatTypes,
    .infer = infer_same,
    .compute = [](Kernel& k) { set_narrowed(k, at::gelu(widened(in(k)))); },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      return {apply(kGeluGrad, {g[0], call.inputs[0]})};
    },
};

extern constexpr OpDef kSoftplus{
    .name = "Softplus",
    .dtypes = kFloatTypes,
    .infer = infer_same,
    // Above 40 even a double cannot tell log(1 + exp(x)) from x.
    .compute = [](Kernel& k) { set_narrowed(k, at::softplus(widened(in(k)), 1, 40)); },
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
