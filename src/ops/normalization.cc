// Batch normalisation, over everything but the channels (dimension 1), and layer normalisation,
// over the last dimensions, those of scale and offset.

#include "base/raise.h"
#include "cohort/nn_ops.h"
#include "cohort/ops.h"
#include "ops/kernel.h"

namespace cohort {
namespace internal {
namespace {

// The gradient of a normalisation's gradient.
//
// y = scale * n + offset with n = (x - mean) * r, r = 1 / sqrt(variance + epsilon), mean and
// variance over some axes of x. Its gradient op takes (g, x, scale, mean, r) and gives those of x,
// scale and offset; here, what follows for g, x and scale from the gradients of these three. Mean
// and r are functions of x; their share is in x's.
struct NormalizeCall {
  Tensor g, x, scale, mean, r;  // all of them broadcast against x
  std::vector<int64_t> axes;    // the axes of the mean and the variance
};
struct NormalizeGradients {
  Tensor g, x, scale;  // all in the shape of x
};
NormalizeGradients second_order(const NormalizeCall& call, const Tensor& of_x,
                                const Tensor& of_scale, const Tensor& of_offset) {
  const auto average = [&](const Tensor& t) { return mean(t, call.axes, KeepDims::Yes); };
  const Tensor n = (call.x - call.mean) * call.r;
  // What a change of n makes of x: linear and its own transpose. The first gradient of x is this of
  // h = g * scale.
  const auto through = [&](const Tensor& t) {
    return call.r * (t - average(t) - n * average(t * n));
  };
  const Tensor h = call.g * call.scale;
  const Tensor v = of_x;
  const Tensor of_h = through(v);

  // sum(v * through(h)) = count * r * (covariance(v, h) - a * b), by x: through r, then through n.
  const Tensor a = average(v * n);
  const Tensor b = average(h * n);
  const Tensor covariance = average(v * h) - average(v) * average(h);
  const Tensor by_r = call.r * call.r * n * (covariance - a * b);
  return {.g = of_h * call.scale + of_scale * n + of_offset,
          .x = through(call.g * of_scale) - by_r - call.r * through(b * v + a * h),
          .scale = of_h * call.g};
}

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

// Inputs after x are vectors of one element per channel. Returns the number of channels.
int64_t require_channel_vectors(const OpInputs& inputs) {
  constexpr std::string_view kVectors[] = {"the scale", "the offset", "the mean", "the variance"};
  require_same_dtype(inputs);
  check_epsilon(inputs);
  const int64_t channels = channels_of(inputs);
  for (size_t i = 1; i < inputs.size(); ++i) {
    require_channel_vector(inputs, i, channels, kVectors[i - 1]);
  }
  return channels;
}

Specs infer_training(const OpInputs& inputs) {
  const Spec statistic{inputs.dtype(0), Shape{require_channel_vectors(inputs)}};
  return {infer_same(inputs)[0], statistic, statistic, statistic};
}

// The gradients of (x, scale, offset) that the gradient op `op` gives.
Gradients normalize_gradients(const OpDef& op, const OpCall& call, const Tensor& g,
                              const Tensor& mean, const Tensor& r, const Attrs& attrs) {
  const Tensor inputs[] = {g, call.inputs[0], call.inputs[1], mean, r};
  const std::vector<Tensor> gradients = apply_many(op, inputs, attrs, {});
  return {gradients.begin(), gradients.end()};
}

// Three outputs that were computed from widened inputs.
void set_three(Kernel& k, const std::tuple<at::Tensor, at::Tensor, at::Tensor>& values) {
  set_narrowed(k, std::get<0>(values), 0);
  set_narrowed(k, std::get<1>(values), 1);
  set_narrowed(k, std::get<2>(values), 2);
}

// A vector of one element per channel, as it broadcasts against x.
Tensor along_channels(const Tensor& vector, const Tensor& x) {
  Shape shape{-1};
  for (int i = 2; i < known_rank("BatchNormGrad", x); ++i) shape.push_back(1);
  return reshape(vector, shape);
}

std::vector<int64_t> all_but_channels(const Tensor& x) {
  std::vector<int64_t> axes{0};
  for (int i = 2; i < known_rank("BatchNormGrad", x); ++i) axes.push_back(i);
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

void compute_batch_norm_grad(Kernel& k) {
  const at::Tensor x = widened(in(k, 1));
  const at::Tensor scale = widened(in(k, 2));
  if (x.numel() == 0) {
    set(k, in(k, 1), 0);
    for (size_t i = 1; i < 3; ++i) set_narrowed(k, at::zeros_like(scale), i);
    return;
  }
  set_three(k, at::native_batch_norm_backward(widened(in(k, 0)), x, scale, {}, {},
                                              widened(in(k, 3)), widened(in(k, 4)), true,
                                              k.attrs.number("epsilon"), {true, true, true}));
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
    .compute = compute_batch_norm_grad,
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
      return normalize_gradients(kBatchNormGrad, call, g[0], call.outputs[1], call.outputs[3],
                                 call.attrs);
    },
};

extern constexpr OpDef kBatchNormInference{
    .name = "BatchNormInference",
    .inputs = 5,  // (x, scale, offset, mean, variance)
    .dtypes = kFloatTypes,
    .attrs = {{"epsilon", AttrKind::Float}},
    .infer = [](const OpInputs& inputs) -> Specs {
      require_channel_vectors(inputs);
      return infer_same(inputs);
    },
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

namespace {

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
            "[{}] the scale's shape {} must equal the last dimensions of the input's shape {}", op,
            scale.to_string(), x.to_string());
    }
    result = result.with(-i, 1);
  }
  return result;
}

Specs infer_layer_norm(const OpInputs& inputs) {
  require_same_dtype(inputs);
  check_epsilon(inputs);
  require_same_shape(inputs, 1, 2);
  const Spec statistic{inputs.dtype(0),
                       statistics_shape(inputs.op, inputs.shape(0), inputs.shape(1))};
  return {infer_same(inputs)[0], statistic, statistic};
}

std::vector<int64_t> last_axes(const Tensor& scale) {
  std::vector<int64_t> axes;
  for (int64_t i = 1; i <= known_rank("LayerNormGrad", scale); ++i) axes.push_back(-i);
  return axes;
}

void compute_layer_norm_grad(Kernel& k) {
  const at::Tensor scale = widened(in(k, 2));
  set_three(k, at::native_layer_norm_backward(widened(in(k, 0)), widened(in(k, 1)), scale.sizes(),
                                              widened(in(k, 3)), widened(in(k, 4)), scale, scale,
                                              {true, true, true}));
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
      require_compatible(inputs.op, inputs.shape(3), statistic, "statistics");
      const Spec vector{inputs.dtype(0), inputs.shape(2)};
      return {x, vector, vector};
    },
    .compute = compute_layer_norm_grad,
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
          set_three(k, at::native_layer_norm(widened(in(k, 0)), scale.sizes(), scale,
                                             widened(in(k, 2)), k.attrs.number("epsilon")));
        },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      return normalize_gradients(kLayerNormGrad, call, g[0], call.outputs[1], call.outputs[2], {});
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

Tensor layer_norm(const Tensor& x, const Tensor& scale, const Tensor& offset, NormOptions options,
                  Site site) {
  const Tensor inputs[] = {x, scale, offset};
  return cohort::internal::apply_many(cohort::internal::kLayerNorm, inputs,
                                      {{"epsilon", options.epsilon}}, site)[0];
}

}  // namespace nn
}  // namespace cohort
