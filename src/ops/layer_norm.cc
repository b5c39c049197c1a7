// Normalisation over the last dimensions, those of scale and offset.

#include "base/raise.h"
#include "cohort/nn_ops.h"
#include "ops/like.h"
#include "ops/nn_common.h"
#include "ops/normalize.h"

namespace cohort {
namespace internal {
namespace {

using Grads = std::span<const Tensor>;

// Checks that `scale` has the last sizes of x, and returns the shape of the statistics: x's with 1
// in their place.
Shape statistics_shape(std::string_view op, const Shape& x, const Shape& scale) {
  require_rank_at_least(op, scale, 1, "the scale");
  if (!x.has_rank() || !scale.has_rank()) return Shape::unknown();
  Shape result = x;
  for (int i = 1; i <= scale.rank(); ++i) {
    const bool fits = scale.rank() <= x.rank() && scale[-i] != 0 &&
                      (scale[-i] == x[-i] || scale[-i] < 0 || x[-i] < 0);
    if (!fits) {
      raise(Code::InvalidArgument,
            "[{}] the scale's shape {} is not that of the last dimensions of the input {}", op,
            scale.to_string(), x.to_string());
    }
    result = result.with(-i, 1);
  }
  return result;
}

Specs infer_layer_norm(const OpInputs& inputs) {
  require_same_dtype(inputs);
  const double epsilon = inputs.attrs.number("epsilon");
  if (!(epsilon >= 0)) {
    raise(Code::InvalidArgument, "[{}] epsilon must not be negative, got {}", inputs.op, epsilon);
  }
  require_same_shape(inputs, 1, 2);
  const Spec statistic{inputs.dtype(0),
                       statistics_shape(inputs.op, inputs.shape(0), inputs.shape(1))};
  return {infer_same(inputs)[0], statistic, statistic};
}

std::vector<int64_t> last_axes(const Tensor& scale) {
  if (!scale.shape().has_rank()) {
    raise(Code::InvalidArgument, "[LayerNormGrad] the number of dimensions must be known");
  }
  std::vector<int64_t> axes;
  for (int64_t i = 1; i <= scale.shape().rank(); ++i) axes.push_back(-i);
  return axes;
}

void compute_grad(Kernel& k) {
  const at::Tensor scale = widened(in(k, 2));
  auto [dx, dscale, doffset] = at::native_layer_norm_backward(
      widened(in(k, 0)), widened(in(k, 1)), scale.sizes(), widened(in(k, 3)), widened(in(k, 4)),
      scale, scale, {true, true, true});
  set_narrowed(k, std::move(dx), 0);
  set_narrowed(k, std::move(dscale), 1);
  set_narrowed(k, std::move(doffset), 2);
}

}  // namespace

extern constexpr OpDef kLayerNormGrad{
    .name = "LayerNormGrad",
    .inputs = 5,  // (g, x, scale, mean, r) -> gradients of (x, scale, offset)
    .dtypes = kFloatTypes,
    .infer = [](const OpInputs& inputs) -> Specs {
      require_same_dtype(inputs);
      const Spec x{inputs.dtype(0), require_same_shape(inputs, 0, 1)};
      const Shape statistic = statistics_shape(inputs.op, x.shape, inputs.shape(2));
      require_same_shape(inputs, 3, 4);
      if (!statistic.is_compatible_with(inputs.shape(3))) {
        raise(Code::InvalidArgument, "[{}] statistics must have shape {}, got {}", inputs.op,
              statistic.to_string(), inputs.shape(3).to_string());
      }
      const Spec vector{inputs.dtype(0), inputs.shape(2)};
      return {x, vector, vector};
    },
    .compute = compute_grad,
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      const Tensor& scale = call.inputs[2];
      const NormalizeCall normalize{.g = call.inputs[0],
                                    .x = call.inputs[1],
                                    .scale = scale,
                                    .mean = call.inputs[3],
                                    .r = call.inputs[4],
                                    .axes = last_axes(scale)};
      const auto second = second_order(normalize, g[0], g[1], g[2]);
      return {second.g, second.x, sum_like(second.scale, scale), {}, {}};
    },
};

extern constexpr OpDef kLayerNorm{
    .name = "LayerNorm",
    .inputs = 3,  // (x, scale, offset) -> (y, mean, 1 / sqrt(variance + epsilon))
    .dtypes = kFloatTypes,
    .attrs = {{"epsilon", AttrKind::Float}},
    .infer = infer_layer_norm,
    .compute =
        [](Kernel& k) {
          const at::Tensor scale = widened(in(k, 1));
          auto [y, mean, r] = at::native_layer_norm(widened(in(k, 0)), scale.sizes(), scale,
                                                    widened(in(k, 2)), k.attrs.number("epsilon"));
          set_narrowed(k, std::move(y), 0);
          set_narrowed(k, std::move(mean), 1);
          set_narrowed(k, std::move(r), 2);
        },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      const Tensor inputs[] = {g[0], call.inputs[0], call.inputs[1], call.outputs[1],
                               call.outputs[2]};
      const std::vector<Tensor> gradients = apply_many(kLayerNormGrad, inputs, {}, {});
      return {gradients[0], gradients[1], gradients[2]};
    },
};

}  // namespace internal

namespace nn {

Tensor layer_norm(const Tensor& x, const Tensor& scale, const Tensor& offset, NormOptions options,
                  Site site) {
  const Tensor inputs[] = {x, scale, offset};
  return cohort::internal::apply_many(cohort::internal::kLayerNorm, inputs,
                                      {{"epsilon", options.epsilon}}, site)[0];
}

}  // namespace nn
}  // namespace cohort
