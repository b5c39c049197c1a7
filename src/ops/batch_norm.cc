// Normalisation over everything but the channels, dimension 1.

#include "base/raise.h"
#include "cohort/nn_ops.h"
#include "ops/nn_common.h"
#include "ops/normalize.h"

namespace cohort {
namespace internal {
namespace {

using Grads = std::span<const Tensor>;

int64_t channels_of(const OpInputs& inputs) {
  const Shape& x = inputs.shape(0);
  require_rank_at_least(inputs.op, x, 2, "the input");
  return x.has_rank() ? x[1] : Shape::kUnknownDim;
}

void check_epsilon(const OpInputs& inputs) {
  const double epsilon = inputs.attrs.number("epsilon");
  if (epsilon >= 0) return;
  raise(Code::InvalidArgument, "[{}] epsilon must not be negative, got {}", inputs.op, epsilon);
}

Specs infer_training(const OpInputs& inputs) {
  require_same_dtype(inputs);
  check_epsilon(inputs);
  const int64_t channels = channels_of(inputs);
  require_channel_vector(inputs, 1, channels, "the scale");
  require_channel_vector(inputs, 2, channels, "the offset");
  const Spec statistic{inputs.dtype(0), Shape{channels}};
  return {infer_same(inputs)[0], statistic, statistic, statistic};
}

Specs infer_inference(const OpInputs& inputs) {
  require_same_dtype(inputs);
  check_epsilon(inputs);
  const int64_t channels = channels_of(inputs);
  require_channel_vector(inputs, 1, channels, "the scale");
  require_channel_vector(inputs, 2, channels, "the offset");
  require_channel_vector(inputs, 3, channels, "the mean");
  require_channel_vector(inputs, 4, channels, "the variance");
  return infer_same(inputs);
}

int known_rank(const Tensor& x) {
  if (x.shape().has_rank()) return x.shape().rank();
  raise(Code::InvalidArgument, "[BatchNormGrad] the number of dimensions must be known");
}

// A vector of one element per channel, as it broadcasts against x.
Tensor along_channels(const Tensor& vector, const Tensor& x) {
  Shape shape{-1};
  for (int i = 2; i < known_rank(x); ++i) shape.push_back(1);
  return reshape(vector, shape);
}

std::vector<int64_t> all_but_channels(const Tensor& x) {
  std::vector<int64_t> axes{0};
  for (int i = 2; i < known_rank(x); ++i) axes.push_back(i);
  return axes;
}

void compute_training(Kernel& k) {
  const at::Tensor x = widened(in(k, 0));
  const at::Tensor scale = widened(in(k, 1));
  at::Tensor mean = at::zeros_like(scale);
  at::Tensor variance = at::zeros_like(scale);
  if (x.numel() == 0) {
    set(k, in(k, 0), 0);
    for (size_t i = 1; i < 4; ++i) set_narrowed(k, at::zeros_like(scale), i);
    return;
  }
  // Averages that move all the way become the batch's own statistics.
  auto result = at::native_batch_norm(x, scale, widened(in(k, 2)), mean, variance, true, 1,
                                      k.attrs.number("epsilon"));
  if (x.numel() == x.size(1)) variance.zero_();  // one element does not vary
  set_narrowed(k, std::get<0>(result), 0);
  set_narrowed(k, std::move(mean), 1);
  set_narrowed(k, std::move(variance), 2);
  set_narrowed(k, std::get<2>(result), 3);
}

void compute_grad(Kernel& k) {
  const at::Tensor x = widened(in(k, 1));
  const at::Tensor scale = widened(in(k, 2));
  if (x.numel() == 0) {
    set(k, in(k, 1), 0);
    for (size_t i = 1; i < 3; ++i) set_narrowed(k, at::zeros_like(scale), i);
    return;
  }
  auto [dx, dscale, doffset] = at::native_batch_norm_backward(
      widened(in(k, 0)), x, scale, {}, {}, widened(in(k, 3)), widened(in(k, 4)), true,
      k.attrs.number("epsilon"), {true, true, true});
  set_narrowed(k, std::move(dx), 0);
  set_narrowed(k, std::move(dscale), 1);
  set_narrowed(k, std::move(doffset), 2);
}

}  // namespace

extern constexpr OpDef kBatchNormGrad{
    .name = "BatchNormGrad",
    .inputs = 5,  // (g, x, scale, mean, r) -> gradients of (x, scale, offset)
    .dtypes = kFloatTypes,
    .attrs = {{"epsilon", AttrKind::Float}},
    .infer = [](const OpInputs& inputs) -> Specs {
      require_same_dtype(inputs);
      const Spec x{inputs.dtype(0), require_same_shape(inputs, 0, 1)};
      const int64_t channels = channels_of(inputs);
      for (size_t i = 2; i < 5; ++i) require_channel_vector(inputs, i, channels, "each statistic");
      const Spec vector{inputs.dtype(0), Shape{channels}};
      return {x, vector, vector};
    },
    .compute = compute_grad,
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      const Tensor& x = call.inputs[1];
      const std::vector<int64_t> axes = all_but_channels(x);
      const NormalizeCall normalize{.g = call.inputs[0],
                                    .x = x,
                                    .scale = along_channels(call.inputs[2], x),
                                    .mean = along_channels(call.inputs[3], x),
                                    .r = along_channels(call.inputs[4], x),
                                    .axes = axes};
      const auto second =
          second_order(normalize, g[0], along_channels(g[1], x), along_channels(g[2], x));
      return {second.g, second.x, sum(second.scale, axes), {}, {}};
    },
};

extern constexpr OpDef kBatchNorm{
    .name = "BatchNorm",
    .inputs = 3,  // (x, scale, offset) -> (y, mean, variance, 1 / sqrt(variance + epsilon))
    .dtypes = kFloatTypes,
    .attrs = {{"epsilon", AttrKind::Float}},
    .infer = infer_training,
    .compute = compute_training,
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      const Tensor inputs[] = {g[0], call.inputs[0], call.inputs[1], call.outputs[1],
                               call.outputs[3]};
      const std::vector<Tensor> gradients = apply_many(kBatchNormGrad, inputs, call.attrs, {});
      return {gradients[0], gradients[1], gradients[2]};
    },
};

extern constexpr OpDef kBatchNormInference{
    .name = "BatchNormInference",
    .inputs = 5,  // (x, scale, offset, mean, variance)
    .dtypes = kFloatTypes,
    .attrs = {{"epsilon", AttrKind::Float}},
    .infer = infer_inference,
    .compute =
        [](Kernel& k) {
          if (in(k, 0).numel() == 0) return set(k, in(k, 0));
          auto result = at::native_batch_norm(
              widened(in(k, 0)), widened(in(k, 1)), widened(in(k, 2)), widened(in(k, 3)),
              widened(in(k, 4)), false, 0, k.attrs.number("epsilon"));
          set_narrowed(k, std::get<0>(result));
        },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      const Tensor& x = call.inputs[0];
      const Tensor& scale = call.inputs[1];
      const Tensor r = rsqrt(call.inputs[4] + call.attrs.number("epsilon"));
      const std::vector<int64_t> axes = all_but_channels(x);
      const Tensor offset_gradient = sum(g[0], axes);
      const Tensor scale_gradient = sum(g[0] * (x - along_channels(call.inputs[3], x)), axes) * r;
      return {g[0] * along_channels(scale * r, x), scale_gradient, offset_gradient,
              -offset_gradient * scale * r, scale_gradient * scale * square(r) * -0.5};
    },
};

}  // namespace internal

namespace nn {

BatchNormResult batch_norm(const Tensor& x, const Tensor& scale, const Tensor& offset,
                           NormOptions options, Site site) {
  const Tensor inputs[] = {x, scale, offset};
  const std::vector<Tensor> outputs = cohort::internal::apply_many(
      cohort::internal::kBatchNorm, inputs, {{"epsilon", options.epsilon}}, site);
  return {.y = outputs[0], .mean = outputs[1], .variance = outputs[2]};
}

Tensor batch_norm(const Tensor& x, const Tensor& scale, const Tensor& offset, const Tensor& mean,
                  const Tensor& variance, NormOptions options, Site site) {
  return cohort::internal::apply(cohort::internal::kBatchNormInference,
                                 {x, scale, offset, mean, variance}, {{"epsilon", options.epsilon}},
                                 site);
}

}  // namespace nn
}  // namespace cohort
