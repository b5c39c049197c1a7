// Layers on images, and normalisation.

#include <algorithm>

#include "base/raise.h"
#include "train/layer.h"

namespace cohort::nn {

using cohort::internal::make_statistic;
using cohort::internal::make_variable;
using cohort::internal::raise;
using cohort::internal::require_positive;
using cohort::internal::require_size;

namespace {

Shape kernel_shape(int64_t inputs, int64_t outputs, Size2d size,
                   const Conv2dLayerOptions& options) {
  require_positive("Conv2d", "the number of input channels", inputs);
  require_positive("Conv2d", "the number of output channels", outputs);
  require_positive("Conv2d", "the kernel's height", size.height);
  require_positive("Conv2d", "the kernel's width", size.width);
  require_positive("Conv2d", "groups", options.groups);
  require_positive("Conv2d", "the stride", std::min(options.stride.height, options.stride.width));
  require_positive("Conv2d", "the dilation",
                   std::min(options.dilation.height, options.dilation.width));
  if (inputs % options.groups != 0 || outputs % options.groups != 0) {
    raise(Code::InvalidArgument, "[Conv2d] {} groups do not divide {} input and {} output channels",
          options.groups, inputs, outputs);
  }
  return {outputs, inputs / options.groups, size.height, size.width};
}

std::optional<Variable> conv_bias(int64_t outputs, const Conv2dLayerOptions& options) {
  if (!options.use_bias) return std::nullopt;
  return make_variable("conv2d/bias", options.bias_initializer, {outputs}, options.dtype);
}

Shape channels_shape(int64_t channels) {
  require_positive("BatchNorm", "the number of channels", channels);
  return {channels};
}

// The share of the batch's statistics in the new moving averages.
double share_of_batch(const BatchNormOptions& options) {
  const bool tensorflow = options.formula == Formula::TensorFlow;
  const double momentum = options.momentum.value_or(tensorflow ? 0.99 : 0.1);
  if (!(momentum >= 0 && momentum <= 1)) {
    raise(Code::InvalidArgument, "[BatchNorm] momentum must be between 0 and 1, got {}", momentum);
  }
  return tensorflow ? 1 - momentum : momentum;
}

double epsilon_of(Formula formula, std::optional<double> given) {
  return given.value_or(formula == Formula::TensorFlow ? 1e-3 : 1e-5);
}

// The variance of all elements of the batch, from the estimate for what the batch was drawn from.
Tensor biased(const Tensor& variance, const Tensor& x) {
  const Tensor count = cast(size(x), variance.dtype()) / cast(size(variance), variance.dtype());
  return variance * ((count - 1) / maximum(count, ones_like(count)));
}

const Shape& checked_sizes(const Shape& sizes) {
  if (sizes.rank() < 1) {
    raise(Code::InvalidArgument, "[LayerNorm] needs the sizes of at least one dimension, got {}",
          sizes.to_string());
  }
  for (const int64_t size : sizes) require_positive("LayerNorm", "each size", size);
  return sizes;
}

// In a graph, whether a batch is empty may show only when the graph runs.
bool may_be_empty(const Tensor& x) {
  return !x.shape().is_fully_known() || x.shape().num_elements() == 0;
}

// Moves `average` towards `value`, a statistic of x, by `share` of the way. An empty share of a
// batch says nothing.
void move_average(Variable average, const Tensor& value, double share, const Tensor& x) {
  Tensor change = (value - average.read_value()) * share;
  if (may_be_empty(x)) change = change * cast(minimum(size(x), int64_t{1}), change.dtype());
  average.assign_add(change);
}

}  // namespace

Conv2d::Conv2d(int64_t input_channels, int64_t output_channels, Size2d kernel_size,
               const Conv2dLayerOptions& options)
    : options_{.stride = options.stride,
               .padding = options.padding,
               .dilation = options.dilation,
               .groups = options.groups},
      kernel_(register_variable(
          "kernel",
          make_variable("conv2d/kernel", options.kernel_initializer,
                        kernel_shape(input_channels, output_channels, kernel_size, options),
                        options.dtype))),
      bias_(register_variable("bias", conv_bias(output_channels, options))) {}

Tensor Conv2d::operator()(const Tensor& x) const {
  const Tensor kernel = kernel_;
  if (x.shape().has_rank() && x.shape().rank() != 4) {
    raise(Code::InvalidArgument,
          "[Conv2d] expected an input of shape (batch, {}, height, width), got shape {}",
          kernel.shape()[1] * options_.groups, x.shape().to_string());
  }
  require_size("Conv2d", x, 1, kernel.shape()[1] * options_.groups, "channels");
  return bias_ ? conv2d(x, kernel, *bias_, options_) : conv2d(x, kernel, options_);
}

BatchNorm::BatchNorm(int64_t channels, const BatchNormOptions& options)
    : formula_(options.formula),
      epsilon_(epsilon_of(options.formula, options.epsilon)),
      share_(share_of_batch(options)),
      scale_(register_variable("scale", make_variable("batch_norm/scale", ones(),
                                                      channels_shape(channels), options.dtype))),
      offset_(register_variable(
          "offset", make_variable("batch_norm/offset", zeros(), {channels}, options.dtype))),
      moving_mean_(register_variable(
          "moving_mean",
          make_statistic("batch_norm/moving_mean", zeros(), {channels}, options.dtype))),
      moving_variance_(register_variable(
          "moving_variance",
          make_statistic("batch_norm/moving_variance", ones(), {channels}, options.dtype))) {}

Tensor BatchNorm::operator()(const Tensor& x) const {
  require_size("BatchNorm", x, 1, scale_.shape()[0], "channels");
  if (!is_training()) {
    return batch_norm(x, scale_, offset_, moving_mean_, moving_variance_, {.epsilon = epsilon_});
  }
  const BatchNormResult result = batch_norm(x, scale_, offset_, {.epsilon = epsilon_});
  move_averages(x, result);
  return result.y;
}

void BatchNorm::move_averages(const Tensor& x, const BatchNormResult& batch) const {
  move_average(moving_mean_, batch.mean, share_, x);
  const bool is_biased = formula_ == Formula::TensorFlow;
  move_average(moving_variance_, is_biased ? biased(batch.variance, x) : batch.variance, share_, x);
}

LayerNorm::LayerNorm(const Shape& sizes, const LayerNormOptions& options)
    : epsilon_(epsilon_of(options.formula, options.epsilon)),
      scale_(register_variable(
          "scale", make_variable("layer_norm/scale", ones(), checked_sizes(sizes), options.dtype))),
      offset_(register_variable(
          "offset", make_variable("layer_norm/offset", zeros(), sizes, options.dtype))) {}

Tensor LayerNorm::operator()(const Tensor& x) const {
  const Shape sizes = scale_.shape();
  for (int i = 1; i <= sizes.rank(); ++i) {
    require_size("LayerNorm", x, -i, sizes[-i], "elements");
  }
  return layer_norm(x, scale_, offset_, {.epsilon = epsilon_});
}

}  // namespace cohort::nn
