// The layers with variables, pooling, Dropout and Flatten.

#include <algorithm>
#include <string_view>

#include "base/raise.h"
#include "cohort/nn_layers.h"
#include "graph/scopes.h"
#include "nn/made_once.h"
#include "variables/single_variable.h"
#include "variables/variable_creators.h"

namespace cohort {

// What a layer does when it has made its variables.
struct internal::ModuleAccess {
  struct Part {
    std::string_view name;
    const Variable& variable;
    const nn::Regularizer* regularizer = nullptr;
  };

  // Registers the variables, then the penalties on them.
  static void finish(const nn::Module& layer, const std::vector<Part>& parts) {
    nn::Module self = layer;  // a handle to the same layer that is not const
    for (const Part& part : parts) self.register_variable(part.name, part.variable);
    for (const Part& part : parts) {
      if (part.regularizer != nullptr) self.add_regularizer(part.variable, *part.regularizer);
    }
    self.set_built(true);
  }
};

namespace nn {

using cohort::internal::FirstCallInitializer;
using cohort::internal::MadeOnce;
using cohort::internal::ModuleAccess;
using cohort::internal::raise;
using cohort::internal::SiteScope;

namespace {

// ---- What the layers have in common. `layer` is a layer's name, for messages.

Variable make_with(const Initializer& initializer, const Shape& shape, DType dtype,
                   VariableOptions options, const void* first_call_of) {
  if (!is_floating(dtype)) {
    raise(Code::InvalidArgument, "[Layer] the dtype of '{}' must be floating, got {}", options.name,
          to_string(dtype));
  }
  if (!initializer) {
    raise(Code::InvalidArgument,
          "[Layer] '{}': the initializer is empty; leave the option out, or give a function",
          options.name);
  }
  options.shape = shape;
  options.dtype = dtype;
  const cohort::Initializer value = [=] { return initializer(shape, dtype); };
  if (first_call_of == nullptr) return Variable(value, options);
  return Variable(cohort::Initializer(FirstCallInitializer{value, first_call_of}), options);
}

// Throws InvalidArgument unless `size`, described by `what`, is at least 1.
void require_positive(std::string_view layer, std::string_view what, int64_t size) {
  if (size >= 1) return;
  raise(Code::InvalidArgument, "[{}] {} must be at least 1, got {}", layer, what, size);
}

// A variable that is initialised when it is made. `first_call_of` is the layer whose first call
// makes the variable; null when the layer's constructor makes it.
Variable make_variable(std::string name, const Initializer& initializer, const Shape& shape,
                       DType dtype, const void* first_call_of = nullptr) {
  return make_with(initializer, shape, dtype, {.name = std::move(name)}, first_call_of);
}

// A statistic of what a layer sees: not trained, and averaged over replicas when it is read.
Variable make_statistic(std::string name, const Initializer& initializer, const Shape& shape,
                        DType dtype, const void* first_call_of = nullptr) {
  return make_with(initializer, shape, dtype,
                   {.name = std::move(name),
                    .trainable = false,
                    .synchronization = VariableSynchronization::OnRead,
                    .aggregation = VariableAggregation::Mean},
                   first_call_of);
}

// Throws InvalidArgument unless dimension `axis` of x, where known, has `size`.
void require_size(std::string_view layer, const Tensor& x, int axis, int64_t size,
                  std::string_view what) {
  const Shape shape = x.shape();
  if (!shape.has_rank()) return;
  const bool exists = axis < 0 ? shape.rank() >= -axis : shape.rank() > axis;
  if (exists && (shape[axis] == size || shape[axis] < 0)) return;
  raise(Code::InvalidArgument, "[{}] expected an input with {} {} (dimension {}), got shape {}",
        layer, size, what, axis, shape.to_string());
}

// The size of dimension `axis` of x, for a layer whose first call tells its size. Throws
// InvalidArgument where x does not have that dimension or, while a function is traced, does not
// know its size.
int64_t size_to_infer(std::string_view layer, const Tensor& x, int axis, std::string_view what) {
  const Shape shape = x.shape();
  const bool exists = shape.has_rank() && (axis < 0 ? shape.rank() >= -axis : shape.rank() > axis);
  if (exists && shape[axis] >= 0) return shape[axis];
  raise(Code::InvalidArgument,
        "[{}] the first call sets the number of {} (dimension {}), but its input has shape {}; "
        "give the number when the layer is made",
        layer, what, axis, shape.to_string());
}

// The variables of a layer. Throws FailedPrecondition while the number of `what` is unknown.
template <typename Weights>
const Weights& made_weights(const MadeOnce<Weights>& weights, std::string_view layer,
                            std::string_view what) {
  if (const Weights* made = weights.get()) return *made;
  raise(Code::FailedPrecondition,
        "[{}] was made without the number of {} and has no variables before its first call; call "
        "the model on one batch first, or give the number",
        layer, what);
}

// ---- Layers

Shape table_shape(int64_t count, int64_t width) {
  require_positive("Embedding", "the number of ids", count);
  require_positive("Embedding", "the width", width);
  return {count, width};
}

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

// The biased variance of the batch, from the unbiased one.
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

// In a graph, a batch may turn out to be empty only when the graph runs.
bool may_be_empty(const Tensor& x) {
  return !x.shape().is_fully_known() || x.shape().num_elements() == 0;
}

// Moves `average` towards `value`, a statistic of x, by `share` of the way. An empty batch does not
// move it.
void move_average(Variable average, const Tensor& value, double share, const Tensor& x) {
  Tensor change = (value - average.read_value()) * share;
  if (may_be_empty(x)) change = change * cast(minimum(size(x), int64_t{1}), change.dtype());
  average.assign_add(change);
}

}  // namespace

// ---- Dense and Conv2d

struct KernelAndBias {
  Variable kernel;
  std::optional<Variable> bias;
};

namespace {

// Makes the kernel and, where the options ask for it, the bias of a layer.
template <typename Options>
const KernelAndBias& make_kernel_and_bias(const Module& layer, MadeOnce<KernelAndBias>& weights,
                                          const Options& options, const std::string& name,
                                          const Shape& kernel_shape, int64_t outputs,
                                          const void* first_call_of) {
  KernelAndBias made{make_variable(name + "/kernel", options.kernel_initializer, kernel_shape,
                                   options.dtype, first_call_of),
                     std::nullopt};
  if (options.use_bias) {
    made.bias = make_variable(name + "/bias", options.bias_initializer, {outputs}, options.dtype,
                              first_call_of);
  }
  return weights.keep(std::move(made), [&](const KernelAndBias& kept) {
    std::vector<ModuleAccess::Part> parts{{"kernel", kept.kernel, &options.kernel_regularizer}};
    if (kept.bias) parts.push_back({"bias", *kept.bias, &options.bias_regularizer});
    ModuleAccess::finish(layer, parts);
  });
}

// Returns activation(before()). The nodes that both add to a graph have this site.
template <typename Before>
Tensor activated(const Before& before, const Activation& activation, Site site) {
  const Tensor y = [&] {
    const SiteScope there(site);
    return before();
  }();
  return activation ? activation(y, site) : y;
}

}  // namespace

struct Dense::Impl {
  Impl(int64_t layer_outputs, const DenseOptions& layer_options)
      : outputs(layer_outputs), options(layer_options) {}

  const KernelAndBias& made() const { return made_weights(weights, "Dense", "inputs"); }
  const KernelAndBias& make(const Dense& layer, int64_t inputs,
                            const void* first_call_of = nullptr);
  Tensor before_activation(const Dense& layer, const Tensor& x);

  const int64_t outputs;
  const DenseOptions options;
  MadeOnce<KernelAndBias> weights;
};

const KernelAndBias& Dense::Impl::make(const Dense& layer, int64_t inputs,
                                       const void* first_call_of) {
  require_positive("Dense", "the number of inputs", inputs);
  return make_kernel_and_bias(layer, weights, options, "dense", {inputs, outputs}, outputs,
                              first_call_of);
}

Tensor Dense::Impl::before_activation(const Dense& layer, const Tensor& x) {
  const KernelAndBias* made = weights.get();
  const Shape shape = x.shape();
  if (shape.has_rank() && shape.rank() < 2) {
    raise(Code::InvalidArgument,
          "[Dense] expected an input of shape (..., {}) with at least 2 dimensions, got shape {}",
          made != nullptr ? std::to_string(made->kernel.shape()[0]) : "inputs", shape.to_string());
  }
  if (made == nullptr) made = &make(layer, size_to_infer("Dense", x, -1, "inputs"), this);
  const Tensor kernel = made->kernel;
  require_size("Dense", x, -1, kernel.shape()[0], "inputs");
  return made->bias ? dense(x, kernel, *made->bias) : matmul(x, kernel);
}

Dense::Dense(int64_t outputs, const DenseOptions& options)
    : impl_(std::make_shared<Impl>(outputs, options)) {
  require_positive("Dense", "the number of outputs", outputs);
  set_built(false);
}

Dense::Dense(int64_t inputs, int64_t outputs, const DenseOptions& options, Site site)
    : Dense(outputs, options) {
  const SiteScope there(site);
  impl_->make(*this, inputs);
}

Variable Dense::kernel() const { return impl_->made().kernel; }
std::optional<Variable> Dense::bias() const { return impl_->made().bias; }

Tensor Dense::operator()(const Tensor& x, Site site) const {
  return activated([&] { return impl_->before_activation(*this, x); }, impl_->options.activation,
                   site);
}

struct Conv2d::Impl {
  Impl(int64_t layer_output_channels, Size2d layer_kernel_size,
       const Conv2dLayerOptions& layer_options)
      : output_channels(layer_output_channels),
        kernel_size(layer_kernel_size),
        options(layer_options) {}

  const KernelAndBias& made() const { return made_weights(weights, "Conv2d", "input channels"); }
  const KernelAndBias& make(const Conv2d& layer, int64_t input_channels,
                            const void* first_call_of = nullptr);
  Tensor before_activation(const Conv2d& layer, const Tensor& x);

  const int64_t output_channels;
  const Size2d kernel_size;
  const Conv2dLayerOptions options;
  MadeOnce<KernelAndBias> weights;
};

const KernelAndBias& Conv2d::Impl::make(const Conv2d& layer, int64_t input_channels,
                                        const void* first_call_of) {
  const Shape shape = kernel_shape(input_channels, output_channels, kernel_size, options);
  return make_kernel_and_bias(layer, weights, options, "conv2d", shape, output_channels,
                              first_call_of);
}

Tensor Conv2d::Impl::before_activation(const Conv2d& layer, const Tensor& x) {
  const KernelAndBias* made = weights.get();
  const auto channels = [&] { return made->kernel.shape()[1] * options.groups; };
  if (x.shape().has_rank() && x.shape().rank() != 4) {
    raise(Code::InvalidArgument,
          "[Conv2d] expected an input of shape (batch, {}, height, width), got shape {}",
          made != nullptr ? std::to_string(channels()) : "channels", x.shape().to_string());
  }
  if (made == nullptr) made = &make(layer, size_to_infer("Conv2d", x, 1, "input channels"), this);
  require_size("Conv2d", x, 1, channels(), "channels");
  const Conv2dOptions geometry{.stride = options.stride,
                               .padding = options.padding,
                               .dilation = options.dilation,
                               .groups = options.groups};
  return made->bias ? conv2d(x, made->kernel, *made->bias, geometry)
                    : conv2d(x, made->kernel, geometry);
}

Conv2d::Conv2d(int64_t output_channels, Size2d kernel_size, const Conv2dLayerOptions& options)
    : impl_(std::make_shared<Impl>(output_channels, kernel_size, options)) {
  kernel_shape(std::max(options.groups, int64_t{1}), output_channels, kernel_size, options);
  set_built(false);
}

Conv2d::Conv2d(int64_t input_channels, int64_t output_channels, Size2d kernel_size,
               const Conv2dLayerOptions& options, Site site)
    : Conv2d(output_channels, kernel_size, options) {
  const SiteScope there(site);
  impl_->make(*this, input_channels);
}

Variable Conv2d::kernel() const { return impl_->made().kernel; }
std::optional<Variable> Conv2d::bias() const { return impl_->made().bias; }

Tensor Conv2d::operator()(const Tensor& x, Site site) const {
  return activated([&] { return impl_->before_activation(*this, x); }, impl_->options.activation,
                   site);
}

// ---- BatchNorm and LayerNorm

struct BatchNorm::Impl {
  struct Weights {
    Variable scale;
    Variable offset;
    Variable moving_mean;
    Variable moving_variance;
  };

  explicit Impl(const BatchNormOptions& layer_options)
      : epsilon(epsilon_of(layer_options.formula, layer_options.epsilon)),
        share(share_of_batch(layer_options)),
        options(layer_options) {}

  const Weights& made() const { return made_weights(weights, "BatchNorm", "channels"); }
  const Weights& make(const BatchNorm& layer, int64_t channels,
                      const void* first_call_of = nullptr);
  void move_averages(const Weights& current, const Tensor& x, const BatchNormResult& batch) const;

  const double epsilon;
  const double share;  // of the batch's statistics in the new moving averages
  const BatchNormOptions options;
  MadeOnce<Weights> weights;
};

const BatchNorm::Impl::Weights& BatchNorm::Impl::make(const BatchNorm& layer, int64_t channels,
                                                      const void* first_call_of) {
  const Shape shape = channels_shape(channels);
  const DType dtype = options.dtype;
  // Braces make the variables from left to right.
  Weights made{make_variable("batch_norm/scale", ones(), shape, dtype, first_call_of),
               make_variable("batch_norm/offset", zeros(), shape, dtype, first_call_of),
               make_statistic("batch_norm/moving_mean", zeros(), shape, dtype, first_call_of),
               make_statistic("batch_norm/moving_variance", ones(), shape, dtype, first_call_of)};
  return weights.keep(std::move(made), [&](const Weights& kept) {
    ModuleAccess::finish(layer, {{"scale", kept.scale, &options.scale_regularizer},
                                 {"offset", kept.offset, &options.offset_regularizer},
                                 {"moving_mean", kept.moving_mean},
                                 {"moving_variance", kept.moving_variance}});
  });
}

void BatchNorm::Impl::move_averages(const Weights& current, const Tensor& x,
                                    const BatchNormResult& batch) const {
  move_average(current.moving_mean, batch.mean, share, x);
  const bool is_biased = options.formula == Formula::TensorFlow;
  move_average(current.moving_variance, is_biased ? biased(batch.variance, x) : batch.variance,
               share, x);
}

BatchNorm::BatchNorm(const BatchNormOptions& options) : impl_(std::make_shared<Impl>(options)) {
  set_built(false);
}

BatchNorm::BatchNorm(int64_t channels, const BatchNormOptions& options, Site site)
    : BatchNorm(options) {
  const SiteScope there(site);
  impl_->make(*this, channels);
}

Variable BatchNorm::scale() const { return impl_->made().scale; }
Variable BatchNorm::offset() const { return impl_->made().offset; }
Variable BatchNorm::moving_mean() const { return impl_->made().moving_mean; }
Variable BatchNorm::moving_variance() const { return impl_->made().moving_variance; }

Tensor BatchNorm::operator()(const Tensor& x, Site site) const {
  const SiteScope made_there(site);
  const Impl::Weights* made = impl_->weights.get();
  if (made == nullptr)
    made = &impl_->make(*this, size_to_infer("BatchNorm", x, 1, "channels"), impl_.get());
  require_size("BatchNorm", x, 1, made->scale.shape()[0], "channels");
  const NormOptions options{.epsilon = impl_->epsilon};
  if (!is_training()) {
    return batch_norm(x, made->scale, made->offset, made->moving_mean, made->moving_variance,
                      options);
  }
  const BatchNormResult result = batch_norm(x, made->scale, made->offset, options);
  impl_->move_averages(*made, x, result);
  return result.y;
}

struct LayerNorm::Impl {
  struct Weights {
    Variable scale;
    Variable offset;
  };

  explicit Impl(const LayerNormOptions& layer_options)
      : epsilon(epsilon_of(layer_options.formula, layer_options.epsilon)), options(layer_options) {}

  const Weights& made() const { return made_weights(weights, "LayerNorm", "elements"); }
  const Weights& make(const LayerNorm& layer, const Shape& sizes,
                      const void* first_call_of = nullptr);

  const double epsilon;
  const LayerNormOptions options;
  MadeOnce<Weights> weights;
};

const LayerNorm::Impl::Weights& LayerNorm::Impl::make(const LayerNorm& layer, const Shape& sizes,
                                                      const void* first_call_of) {
  const Shape& shape = checked_sizes(sizes);
  const DType dtype = options.dtype;
  // Braces make the variables from left to right.
  Weights made{make_variable("layer_norm/scale", ones(), shape, dtype, first_call_of),
               make_variable("layer_norm/offset", zeros(), shape, dtype, first_call_of)};
  return weights.keep(std::move(made), [&](const Weights& kept) {
    ModuleAccess::finish(layer, {{"scale", kept.scale, &options.scale_regularizer},
                                 {"offset", kept.offset, &options.offset_regularizer}});
  });
}

LayerNorm::LayerNorm(const LayerNormOptions& options) : impl_(std::make_shared<Impl>(options)) {
  set_built(false);
}

LayerNorm::LayerNorm(const Shape& sizes, const LayerNormOptions& options, Site site)
    : LayerNorm(options) {
  const SiteScope there(site);
  impl_->make(*this, sizes);
}

Variable LayerNorm::scale() const { return impl_->made().scale; }
Variable LayerNorm::offset() const { return impl_->made().offset; }

Tensor LayerNorm::operator()(const Tensor& x, Site site) const {
  const SiteScope there(site);
  const Impl::Weights* made = impl_->weights.get();
  if (made == nullptr)
    made = &impl_->make(*this, {size_to_infer("LayerNorm", x, -1, "elements")}, impl_.get());
  const Shape sizes = made->scale.shape();
  for (int i = 1; i <= sizes.rank(); ++i) {
    require_size("LayerNorm", x, -i, sizes[-i], "elements");
  }
  return layer_norm(x, made->scale, made->offset, {.epsilon = impl_->epsilon});
}

// ---- The other layers

MaxPool2d::MaxPool2d(Size2d window, const Pool2dOptions& options)
    : window_(window), options_(options) {}

Tensor MaxPool2d::operator()(const Tensor& x, Site site) const {
  return max_pool2d(x, window_, options_, site);
}

AvgPool2d::AvgPool2d(Size2d window, const Pool2dOptions& options)
    : window_(window), options_(options) {}

Tensor AvgPool2d::operator()(const Tensor& x, Site site) const {
  return avg_pool2d(x, window_, options_, site);
}

Tensor embedding_lookup(const Variable& table, const Tensor& ids, Site site) {
  const SiteScope there(site);
  const cohort::internal::RowReads never_cached;
  return embedding_lookup(static_cast<Tensor>(table), ids);
}

Embedding::Embedding(int64_t count, int64_t width, const EmbeddingOptions& options, Site site) {
  const SiteScope there(site);
  table_ = register_variable("table", make_variable("embedding/table", options.initializer,
                                                    table_shape(count, width), options.dtype));
  add_regularizer(table_, options.regularizer);
}

Tensor Embedding::operator()(const Tensor& ids, Site site) const {
  return embedding_lookup(table_, ids, site);
}

Dropout::Dropout(double rate) : rate_(rate) {
  if (rate >= 0 && rate < 1) return;
  raise(Code::InvalidArgument, "[Dropout] the rate must be at least 0 and less than 1, got {}",
        rate);
}

Tensor Dropout::operator()(const Tensor& x, Site site) const {
  return is_training() && rate_ > 0 ? dropout(x, {.rate = rate_}, site) : x;
}

Tensor Flatten::operator()(const Tensor& x, Site site) const {
  const Shape shape = x.shape();
  if (!shape.has_rank() || shape.rank() < 1) {
    raise(Code::InvalidArgument, "[Flatten] expected an input of shape (batch, ...), got {}",
          shape.to_string());
  }
  if (shape.rank() == 2) return x;
  const Shape rest = shape.without(0);
  if (rest.is_fully_known()) return reshape(x, {shape[0], rest.num_elements()}, site);
  if (shape[0] >= 0) return reshape(x, {shape[0], -1}, site);
  raise(Code::InvalidArgument,
        "[Flatten] at most the batch may be unknown, got an input of shape {}", shape.to_string());
}

}  // namespace nn
}  // namespace cohort
