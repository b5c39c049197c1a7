// Two-dimensional convolution. It is linear in the input and in the kernel, so that three ops, the
// convolution and its gradients by either, are closed under differentiation.

#include "base/raise.h"
#include "cohort/nn_ops.h"
#include "ops/all_ops.h"
#include "ops/gemm_conv2d.h"
#include "ops/window2d.h"

namespace cohort {
namespace internal {
namespace {

constexpr AttrList kConvolutionAttrs{{"stride", AttrKind::Pair},
                                     {"dilation", AttrKind::Pair},
                                     {"padding", AttrKind::Pair},
                                     {"same", AttrKind::Bool},
                                     {"groups", AttrKind::Int}};

Attrs conv2d_attrs(const nn::Conv2dOptions& options) {
  return {{"stride", to_attr(options.stride)},
          {"dilation", to_attr(options.dilation)},
          {"padding", to_attr(options.padding.amount)},
          {"same", options.padding.same},
          {"groups", options.groups}};
}

// The window that a kernel of these height and width makes.
Window2d window_of(const Attrs& attrs, int64_t height, int64_t width) {
  return {{height, width},
          sides(attrs, "stride"),
          sides(attrs, "dilation"),
          sides(attrs, "padding"),
          attrs.flag("same")};
}

Window2d window_of(const Attrs& attrs, const at::Tensor& kernel) {
  return window_of(attrs, kernel.size(2), kernel.size(3));
}

void check_channels(std::string_view op, const Shape& x, const Shape& kernel, int64_t groups) {
  if (groups < 1)
    raise(Code::InvalidArgument, "[{}] groups must be at least 1, got {}", op, groups);
  if (x[1] >= 0 && kernel[1] >= 0 && (x[1] % groups != 0 || x[1] / groups != kernel[1])) {
    raise(Code::InvalidArgument,
          "[{}] an input of shape {} has {} channels, but a kernel of shape {} with {} group(s) "
          "wants {}",
          op, x.to_string(), x[1], kernel.to_string(), groups, kernel[1] * groups);
  }
  if (kernel[0] == 0 || kernel[1] == 0 || (kernel[0] > 0 && kernel[0] % groups != 0)) {
    raise(Code::InvalidArgument, "[{}] a kernel of shape {} cannot be split into {} group(s)", op,
          kernel.to_string(), groups);
  }
}

// Of the convolution of x with the kernel.
Shape output_shape(std::string_view op, const Attrs& attrs, const Shape& x, const Shape& kernel) {
  require_rank(op, x, 4, "the input");
  require_rank(op, kernel, 4, "the kernel");
  if (!x.has_rank() || !kernel.has_rank()) return {-1, -1, -1, -1};
  check_channels(op, x, kernel, attrs.integer("groups"));
  if (kernel[2] < 0 || kernel[3] < 0) return {x[0], kernel[0], -1, -1};
  const Window2d window = window_of(attrs, kernel[2], kernel[3]);
  window.check(op);
  return window.output(op, x, kernel[0]);
}

Specs infer_conv2d(const OpInputs& inputs) {
  require_same_dtype(inputs);
  const Shape shape = output_shape(inputs.op, inputs.attrs, inputs.shape(0), inputs.shape(1));
  require_allocatable(inputs.op, shape, inputs.dtype(0));
  if (inputs.size() > 2) require_channel_vector(inputs, 2, shape[1], "the bias");
  return {{inputs.dtype(0), shape}};
}

// Inputs (g, kernel or x, the tensor whose gradient is wanted).
Specs infer_grad(const OpInputs& inputs, const Shape& x, const Shape& kernel) {
  require_same_dtype(inputs);
  const Shape output = output_shape(inputs.op, inputs.attrs, x, kernel);
  if (!output.is_compatible_with(inputs.shape(0))) {
    raise(Code::InvalidArgument, "[{}] a gradient of shape {} does not fit an output of {}",
          inputs.op, inputs.shape(0).to_string(), output.to_string());
  }
  return {{inputs.dtype(0), inputs.shape(2)}};
}

at::Tensor forward(const Kernel& k, const at::Tensor& x, const at::Tensor& kernel,
                   const at::Tensor& bias) {
  const Window2d window = window_of(k.attrs, kernel);
  const int64_t groups = k.attrs.integer("groups");
  const GemmConv2d conv(window, x, kernel);
  if (groups == 1 && conv.forward_is_quicker()) return conv.forward(x, kernel, bias);
  const PaddedPlanes planes(window, x);
  return at::convolution(planes.extended(x, 0), kernel, bias, window.stride, planes.padding,
                         window.dilation, false, {0, 0}, groups);
}

// Which gradient: 0 the input's, 1 the kernel's.
at::Tensor backward(const Kernel& k, const at::Tensor& x, const at::Tensor& kernel, size_t which) {
  const Window2d window = window_of(k.attrs, kernel);
  const at::Tensor g = widened(in(k, 0));
  const int64_t groups = k.attrs.integer("groups");
  const GemmConv2d conv(window, x, kernel);
  if (groups == 1 && which == 0 && conv.input_grad_is_quicker()) return conv.input_grad(g, kernel);
  if (groups == 1 && which == 1 && conv.kernel_grad_is_quicker()) return conv.kernel_grad(g, x);
  const PaddedPlanes planes(window, x);
  const at::Tensor input = which == 0 ? planes.like_extended(x) : planes.extended(x, 0);
  const auto gradients = at::convolution_backward(g, input, kernel, c10::nullopt, window.stride,
                                                  planes.padding, window.dilation, false, {0, 0},
                                                  groups, {which == 0, which == 1, false});
  return which == 0 ? planes.cropped(std::get<0>(gradients)) : std::get<1>(gradients);
}

}  // namespace

extern constexpr OpDef kConv2dInputGrad{
    .name = "Conv2dInputGrad",
    .inputs = 3,  // (g, kernel, x)
    .dtypes = kFloatTypes,
    .attrs = kConvolutionAttrs,
    .infer =
        [](const OpInputs& inputs) { return infer_grad(inputs, inputs.shape(2), inputs.shape(1)); },
    .compute =
        [](Kernel& k) { set_narrowed(k, backward(k, widened(in(k, 2)), widened(in(k, 1)), 0)); },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      const Tensor& kernel = call.inputs[1];
      return {apply(kConv2d, {g[0], kernel}, call.attrs),
              apply(kConv2dKernelGrad, {call.inputs[0], g[0], kernel}, call.attrs),
              {}};
    },
    .traits = Trait::HostKernel,
};

extern constexpr OpDef kConv2dKernelGrad{
    .name = "Conv2dKernelGrad",
    .inputs = 3,  // (g, x, kernel)
    .dtypes = kFloatTypes,
    .attrs = kConvolutionAttrs,
    .infer =
        [](const OpInputs& inputs) { return infer_grad(inputs, inputs.shape(1), inputs.shape(2)); },
    .compute =
        [](Kernel& k) { set_narrowed(k, backward(k, widened(in(k, 1)), widened(in(k, 2)), 1)); },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      const Tensor& x = call.inputs[1];
      return {apply(kConv2d, {x, g[0]}, call.attrs),
              apply(kConv2dInputGrad, {call.inputs[0], g[0], x}, call.attrs),
              {}};
    },
    .traits = Trait::HostKernel,
};

extern constexpr OpDef kConv2d{
    .name = "Conv2d",
    .inputs = {2, 3},  // (x, kernel) or (x, kernel, bias)
    .dtypes = kFloatTypes,
    .attrs = kConvolutionAttrs,
    .infer = infer_conv2d,
    .compute =
        [](Kernel& k) {
          const at::Tensor bias = k.inputs.size() > 2 ? widened(in(k, 2)) : at::Tensor();
          set_narrowed(k, forward(k, widened(in(k, 0)), widened(in(k, 1)), bias));
        },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      const Tensor& x = call.inputs[0];
      const Tensor& kernel = call.inputs[1];
      Gradients gradients(call.inputs.size());
      if (call.wants(0)) gradients[0] = apply(kConv2dInputGrad, {g[0], kernel, x}, call.attrs);
      if (call.wants(1)) gradients[1] = apply(kConv2dKernelGrad, {g[0], x, kernel}, call.attrs);
      if (call.inputs.size() > 2 && call.wants(2)) gradients[2] = sum(g[0], {0, 2, 3});
      return gradients;
    },
    .traits = Trait::HostKernel,
};

}  // namespace internal

namespace nn {

using cohort::internal::apply;
using cohort::internal::conv2d_attrs;
using cohort::internal::kConv2d;

Tensor conv2d(const Tensor& x, const Tensor& kernel, const Conv2dOptions& options, Site site) {
  return apply(kConv2d, {x, kernel}, conv2d_attrs(options), site);
}

Tensor conv2d(const Tensor& x, const Tensor& kernel, const Tensor& bias,
              const Conv2dOptions& options, Site site) {
  return apply(kConv2d, {x, kernel, bias}, conv2d_attrs(options), site);
}

}  // namespace nn
}  // namespace cohort
