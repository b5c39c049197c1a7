#include "cohort/nn_ops.h"
#include "ops/kernel.h"

namespace cohort {
namespace internal {
namespace {

Specs infer_softmax(const OpInputs& inputs) {
  require_rank_at_least(inputs.op, inputs.shape(0), 1, "the input");
  if (inputs.shape(0).has_rank()) {
    normalize_axis(inputs.op, inputs.attrs.integer("axis"), inputs.shape(0).rank());
  }
  return infer_same(inputs);
}

// (gradient of the output, output)
Specs infer_softmax_grad(const OpInputs& inputs) {
  require_same_dtype(inputs);
  const Spec spec = infer_softmax(inputs)[0];
  return {{spec.dtype, require_same_shape(inputs, 0, 1)}};
}

Tensor sum_along(const Tensor& x, const Attrs& attrs) {
  return sum(x, static_cast<int>(attrs.integer("axis")), KeepDims::Yes);
}

}  // namespace

extern constexpr OpDef kSoftmaxGrad{
    .name = "SoftmaxGrad",
    .inputs = 2,  // (g, y) -> y * (g - sum(g * y))
    .dtypes = kFloatTypes,
    .attrs = {{"axis", AttrKind::Int}},
    .infer = infer_softmax_grad,
    .compute =
        [](Kernel& k) {
          const at::Tensor y = widened(in(k, 1));
          set_narrowed(k, at::_softmax_backward_data(widened(in(k, 0)), y, k.attrs.integer("axis"),
                                                     y.scalar_type()));
        },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      const Tensor& first = call.inputs[0];
      const Tensor& y = call.inputs[1];
      return {apply(kSoftmaxGrad, {g[0], y}, call.attrs),
              g[0] * (first - sum_along(first * y, call.attrs)) -
                  first * sum_along(g[0] * y, call.attrs)};
    },
    .traits = Trait::OneDType,
};

extern constexpr OpDef kSoftmax{
    .name = "Softmax",
    .inputs = 1,
    .dtypes = kFloatTypes,
    .attrs = {{"axis", AttrKind::Int}},
    .infer = infer_softmax,
    .compute =
        [](Kernel& k) {
          set_narrowed(k, at::_softmax(widened(in(k)), k.attrs.integer("axis"), false));
        },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      return {apply(kSoftmaxGrad, {g[0], call.outputs[0]}, call.attrs)};
    },
};

extern constexpr OpDef kLogSoftmaxGrad{
    .name = "LogSoftmaxGrad",
    .inputs = 2,  // (g, y) -> g - exp(y) * sum(g)
    .dtypes = kFloatTypes,
    .attrs = {{"axis", AttrKind::Int}},
    .infer = infer_softmax_grad,
    .compute =
        [](Kernel& k) {
          const at::Tensor y = widened(in(k, 1));
          set_narrowed(k, at::_log_softmax_backward_data(widened(in(k, 0)), y,
                                                         k.attrs.integer("axis"), y.scalar_type()));
        },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      const Tensor weighted = g[0] * exp(call.inputs[1]);
      return {g[0] - sum_along(weighted, call.attrs),
              -weighted * sum_along(call.inputs[0], call.attrs)};
    },
    .traits = Trait::OneDType,
};

extern constexpr OpDef kLogSoftmax{
    .name = "LogSoftmax",
    .inputs = 1,
    .dtypes = kFloatTypes,
    .attrs = {{"axis", AttrKind::Int}},
    .infer = infer_softmax,
    .compute =
        [](Kernel& k) {
          set_narrowed(k, at::_log_softmax(widened(in(k)), k.attrs.integer("axis"), false));
        },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      return {apply(kLogSoftmaxGrad, {g[0], call.outputs[0]}, call.attrs)};
    },
};

}  // namespace internal

namespace nn::functions {

Tensor Softmax::operator()(const Tensor& x, SoftmaxOptions options, Site site) const {
  return cohort::internal::apply(cohort::internal::kSoftmax, {x}, {{"axis", int64_t{options.axis}}},
                                 site);
}
Tensor LogSoftmax::operator()(const Tensor& x, SoftmaxOptions options, Site site) const {
  return cohort::internal::apply(cohort::internal::kLogSoftmax, {x},
                                 {{"axis", int64_t{options.axis}}}, site);
}

}  // namespace nn::functions
}  // namespace cohort
