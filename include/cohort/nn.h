#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "cohort/ops.h"
#include "cohort/shape.h"
#include "cohort/site.h"
#include "cohort/tensor.h"
#include "cohort/variable.h"

// Neural networks: functions on tensors, and layers, which are such functions with variables.
//
// Images are laid out as (batch, channels, height, width), and a convolution's kernel as (output
// channels, input channels / groups, height, width): LibTorch's layout. A dense kernel is (input
// width, output width). Floating dtypes only; wrong shapes, dtypes and options throw
// InvalidArgument naming the op or layer, what it expected and what it found.

namespace cohort {

namespace internal {
struct ModuleState;
// What takes a tensor and gives one.
template <typename T>
concept LayerLike =
    std::copy_constructible<std::remove_cvref_t<T>> && std::is_invocable_r_v < Tensor,
        const std::remove_cvref_t<T>
&, const Tensor& > ;
}  // namespace internal

namespace nn {

// Activations. Each is a constant function object, so that it can be called, nn::relu(x), and
// passed as a value, nn::Sequential{nn::Dense(4, 8), nn::relu}.

struct LeakyReluOptions {
  double slope = 0.01;  // below 0
};
struct EluOptions {
  double alpha = 1;  // the limit for very negative x is -alpha
};
struct SoftmaxOptions {
  int axis = -1;
};

namespace functions {
struct Relu {
  Tensor operator()(const Tensor& x, Site site = Site::here()) const;
};
struct Relu6 {
  Tensor operator()(const Tensor& x, Site site = Site::here()) const;
};
struct LeakyRelu {
  Tensor operator()(const Tensor& x, LeakyReluOptions options = {}, Site site = Site::here()) const;
};
struct Elu {
  Tensor operator()(const Tensor& x, EluOptions options = {}, Site site = Site::here()) const;
};
struct Gelu {
  Tensor operator()(const Tensor& x, Site site = Site::here()) const;
};
struct Softplus {
  Tensor operator()(const Tensor& x, Site site = Site::here()) const;
};
struct Sigmoid {
  Tensor operator()(const Tensor& x, Site site = Site::here()) const;
};
struct Tanh {
  Tensor operator()(const Tensor& x, Site site = Site::here()) const;
};
struct Softmax {
  Tensor operator()(const Tensor& x, SoftmaxOptions options = {}, Site site = Site::here()) const;
};
struct LogSoftmax {
  Tensor operator()(const Tensor& x, SoftmaxOptions options = {}, Site site = Site::here()) const;
};
}  // namespace functions

inline constexpr functions::Relu relu{};             // max(x, 0)
inline constexpr functions::Relu6 relu6{};           // min(max(x, 0), 6)
inline constexpr functions::LeakyRelu leaky_relu{};  // x, or slope * x below 0
inline constexpr functions::Elu elu{};               // x, or alpha * (exp(x) - 1) below 0
inline constexpr functions::Gelu gelu{};             // x * P(a normal variable <= x), exact
inline constexpr functions::Softplus softplus{};     // log(1 + exp(x))
inline constexpr functions::Sigmoid sigmoid{};       // 1 / (1 + exp(-x))
inline constexpr functions::Tanh tanh{};
inline constexpr functions::Softmax softmax{};         // exp(x) / sum(exp(x)) along an axis
inline constexpr functions::LogSoftmax log_softmax{};  // its logarithm, exact where that is tiny

// Losses. Each gives one number per example or element, which `reduction` makes into one.

enum class Reduction { Mean, Sum, None };

struct LossOptions {
  Reduction reduction = Reduction::Mean;
  // When above 0: this batch is a part of one with so many examples (sizes of dimension 0), and
  // Mean divides as for the whole. The sum over all parts is then the mean over the whole batch:
  // what a step that several replicas share needs.
  int64_t global_batch_size = 0;
};

// Cross entropy between softmax(logits), along the last axis, and labels: class ids of any integer
// dtype (one dimension less than the logits; an id that is no class is InvalidArgument), or
// probabilities of the logits' shape and a floating dtype.
Tensor softmax_cross_entropy(const Tensor& logits, const Tensor& labels, LossOptions options = {},
                             Site site = Site::here());
// Cross entropy between sigmoid(logits) and labels in [0, 1], element by element. Integer and bool
// labels are converted.
Tensor sigmoid_cross_entropy(const Tensor& logits, const Tensor& labels, LossOptions options = {},
                             Site site = Site::here());
// (predictions - targets)^2, element by element. The shapes must be equal: nothing broadcasts.
Tensor mean_squared_error(const Tensor& predictions, const Tensor& targets,
                          LossOptions options = {}, Site site = Site::here());
// sum(x^2) / 2.
Tensor l2_loss(const Tensor& x, Site site = Site::here());

// x @ kernel + bias, for x of shape (..., input width).
Tensor dense(const Tensor& x, const Tensor& kernel, const Tensor& bias, Site site = Site::here());
// x plus bias[i] at index i of `axis`.
Tensor bias_add(const Tensor& x, const Tensor& bias, int axis = -1, Site site = Site::here());

// Height and width; one number means both.
struct Size2d {
  constexpr Size2d(int64_t both) : height(both), width(both) {}
  constexpr Size2d(int64_t h, int64_t w) : height(h), width(w) {}

  int64_t height;
  int64_t width;
};

// Valid: none. Same: as many zeros as make the output's size the input's divided by the stride,
// rounded up; an odd one goes to the bottom or right.
enum class PaddingMode { Valid, Same };

// A mode, or rows and columns added on each side.
struct Padding2d {
  constexpr Padding2d(PaddingMode mode) : same(mode == PaddingMode::Same), amount(0) {}
  constexpr Padding2d(int64_t both) : same(false), amount(both) {}
  constexpr Padding2d(int64_t h, int64_t w) : same(false), amount(h, w) {}

  bool same;
  Size2d amount;
};

struct Conv2dOptions {
  Size2d stride = 1;
  Padding2d padding = PaddingMode::Valid;
  Size2d dilation = 1;
  int64_t groups = 1;  // channels are split into so many independent convolutions
};
Tensor conv2d(const Tensor& x, const Tensor& kernel, const Conv2dOptions& options = {},
              Site site = Site::here());
// With bias[c] added to output channel c.
Tensor conv2d(const Tensor& x, const Tensor& kernel, const Tensor& bias,
              const Conv2dOptions& options = {}, Site site = Site::here());

struct Pool2dOptions {
  Size2d stride = 0;                       // 0: the window's size
  Padding2d padding = PaddingMode::Valid;  // at most half the window
};
// The largest, or the mean, of each window. Padding is never the largest and does not count in the
// mean.
Tensor max_pool2d(const Tensor& x, Size2d window, const Pool2dOptions& options = {},
                  Site site = Site::here());
Tensor avg_pool2d(const Tensor& x, Size2d window, const Pool2dOptions& options = {},
                  Site site = Site::here());

struct NormOptions {
  double epsilon = 1e-5;  // added to the variance
};
struct BatchNormResult {
  Tensor y;
  // Of each channel of this batch, for moving averages; no gradient goes through them. The variance
  // divides by n - 1.
  Tensor mean;
  Tensor variance;
};
// x normalised to mean 0 and variance 1 in each channel (dimension 1), then scaled and shifted;
// scale and offset have shape (channels,). Training: with the batch's own statistics.
BatchNormResult batch_norm(const Tensor& x, const Tensor& scale, const Tensor& offset,
                           NormOptions options = {}, Site site = Site::here());
// Inference: with given ones.
Tensor batch_norm(const Tensor& x, const Tensor& scale, const Tensor& offset, const Tensor& mean,
                  const Tensor& variance, NormOptions options = {}, Site site = Site::here());
// The same for each example over the last dimensions, those of scale and offset.
Tensor layer_norm(const Tensor& x, const Tensor& scale, const Tensor& offset,
                  NormOptions options = {}, Site site = Site::here());

struct DropoutOptions {
  double rate = 0.5;  // share of elements that become 0; the others grow by 1 / (1 - rate)
};
Tensor dropout(const Tensor& x, DropoutOptions options = {}, Site site = Site::here());

// Rows of `table` at `ids` (int32 or int64, any shape). The gradient is IndexedSlices: rows, not
// the table.
Tensor embedding_lookup(const Tensor& table, const Tensor& ids, Site site = Site::here());

// Initializers: how a new variable of that shape and dtype begins.
using Initializer = std::function<Tensor(const Shape&, DType)>;

Initializer zeros();
Initializer ones();
Initializer constant(double value);
Initializer uniform(double low = -0.05, double high = 0.05);
Initializer normal(double mean = 0, double stddev = 0.05);
Initializer truncated_normal(double mean = 0, double stddev = 0.05);  // within 2 stddev
// For layers followed by tanh or softmax (glorot) or by relu (he): the variance is 2 / (fan in +
// fan out), or 2 / fan in, where a unit has `fan in` inputs and goes to `fan out` others.
Initializer glorot_uniform();
Initializer glorot_normal();
Initializer he_uniform();
Initializer he_normal();

using NamedVariables = std::vector<std::pair<std::string, Variable>>;

// The base of everything that has variables: it collects them by path. A module of your own:
//
//   class Mlp : public nn::Module {
//    public:
//     Tensor operator()(const Tensor& x) const { return scale_ * output_(nn::relu(hidden_(x))); }
//
//    private:
//     nn::Dense hidden_ = register_module("hidden", nn::Dense(784, 128));
//     nn::Dense output_ = register_module("output", nn::Dense(128, 10));
//     Variable scale_ = register_variable("scale", Variable(1.f));
//   };
//
// Members are made in the order they are declared, and so are their variables. A handle: copies
// share variables and mode. Any number of threads may call one module at the same time; calls keep
// nothing in it but what a layer's variables hold.
class Module {
 public:
  // Each variable once, with the first path that leads to it: "hidden/kernel".
  NamedVariables named_variables() const;
  std::vector<Variable> variables() const;
  std::vector<Variable> trainable_variables() const;

  // Whether layers that behave differently in training (Dropout, BatchNorm) do so: this module and
  // all below it. A new module is in training mode.
  void train();
  void eval();
  bool is_training() const;

 protected:
  Module();
  Module(const Module&) = default;
  Module& operator=(const Module&) = default;
  ~Module() = default;

  // Makes it part of this one, and returns it. A name is not empty, has no '/', and comes once
  // (InvalidArgument).
  template <std::derived_from<Module> Part>
  Part register_module(std::string_view name, Part part) {
    adopt(name, part);
    return part;
  }
  Variable register_variable(std::string_view name, Variable variable);
  // The same for a variable that may be missing.
  std::optional<Variable> register_variable(std::string_view name,
                                            std::optional<Variable> variable);

 private:
  void adopt(std::string_view name, const Module& part);

  std::shared_ptr<internal::ModuleState> state_;
};

struct DenseOptions {
  bool use_bias = true;
  Initializer kernel_initializer = glorot_uniform();
  Initializer bias_initializer = zeros();
  DType dtype = kFloat32;
};
// x @ kernel + bias, for x of shape (..., inputs).
class Dense : public Module {
 public:
  Dense(int64_t inputs, int64_t outputs, const DenseOptions& options = {});
  Tensor operator()(const Tensor& x) const;

  Variable kernel() const { return kernel_; }
  std::optional<Variable> bias() const { return bias_; }

 private:
  Variable kernel_;
  std::optional<Variable> bias_;
};

struct Conv2dLayerOptions {
  Size2d stride = 1;
  Padding2d padding = PaddingMode::Valid;
  Size2d dilation = 1;
  int64_t groups = 1;
  bool use_bias = true;
  Initializer kernel_initializer = glorot_uniform();
  Initializer bias_initializer = zeros();
  DType dtype = kFloat32;
};
class Conv2d : public Module {
 public:
  Conv2d(int64_t input_channels, int64_t output_channels, Size2d kernel_size,
         const Conv2dLayerOptions& options = {});
  Tensor operator()(const Tensor& x) const;

  Variable kernel() const { return kernel_; }
  std::optional<Variable> bias() const { return bias_; }

 private:
  Conv2dOptions options_;
  Variable kernel_;
  std::optional<Variable> bias_;
};

class MaxPool2d {
 public:
  MaxPool2d(Size2d window, const Pool2dOptions& options = {})
      : window_(window), options_(options) {}
  Tensor operator()(const Tensor& x) const { return max_pool2d(x, window_, options_); }

 private:
  Size2d window_;
  Pool2dOptions options_;
};

class AvgPool2d {
 public:
  AvgPool2d(Size2d window, const Pool2dOptions& options = {})
      : window_(window), options_(options) {}
  Tensor operator()(const Tensor& x) const { return avg_pool2d(x, window_, options_); }

 private:
  Size2d window_;
  Pool2dOptions options_;
};

// (batch, ...) to (batch, all the rest).
class Flatten {
 public:
  Tensor operator()(const Tensor& x) const;
};

// dropout() in training mode, else nothing.
class Dropout : public Module {
 public:
  explicit Dropout(double rate = 0.5);
  Tensor operator()(const Tensor& x) const;

 private:
  double rate_;
};

struct BatchNormOptions {
  double epsilon = 1e-5;
  double momentum = 0.1;  // share of the batch's statistics in the new moving averages
  DType dtype = kFloat32;
};
// batch_norm() with the batch's statistics in training mode, which also moves the averages, and
// with those averages otherwise.
class BatchNorm : public Module {
 public:
  explicit BatchNorm(int64_t channels, const BatchNormOptions& options = {});
  Tensor operator()(const Tensor& x) const;

  Variable scale() const { return scale_; }
  Variable offset() const { return offset_; }
  Variable moving_mean() const { return moving_mean_; }
  Variable moving_variance() const { return moving_variance_; }

 private:
  BatchNormOptions options_;
  Variable scale_;
  Variable offset_;
  Variable moving_mean_;
  Variable moving_variance_;
};

struct LayerNormOptions {
  double epsilon = 1e-5;
  DType dtype = kFloat32;
};
// layer_norm() over the last dimensions, which have these sizes.
class LayerNorm : public Module {
 public:
  explicit LayerNorm(const Shape& sizes, const LayerNormOptions& options = {});
  explicit LayerNorm(int64_t size, const LayerNormOptions& options = {})
      : LayerNorm(Shape{size}, options) {}
  Tensor operator()(const Tensor& x) const;

  Variable scale() const { return scale_; }
  Variable offset() const { return offset_; }

 private:
  LayerNormOptions options_;
  Variable scale_;
  Variable offset_;
};

struct EmbeddingOptions {
  Initializer initializer = uniform();
  DType dtype = kFloat32;
};
// Ids in [0, count) to vectors of `width`.
class Embedding : public Module {
 public:
  Embedding(int64_t count, int64_t width, const EmbeddingOptions& options = {});
  Tensor operator()(const Tensor& ids) const;

  Variable table() const { return table_; }

 private:
  Variable table_;
};

// Layers, one after the other: anything that takes a tensor and gives one. Those that are modules
// are parts of this one, named by their position: "0/kernel". (A lambda is welcome too, but hides
// the variables of modules it captured.)
//
//   nn::Sequential model{nn::Dense(784, 128), nn::relu, nn::Dense(128, 10)};
class Sequential : public Module {
 public:
  Sequential();
  template <typename... Layers>
  requires(sizeof...(Layers) > 1 && (internal::LayerLike<Layers> && ...))
      Sequential(Layers&&... layers)
      : Sequential() {
    (push_back(std::forward<Layers>(layers)), ...);
  }
  template <internal::LayerLike Layer>
  requires(!std::same_as<std::remove_cvref_t<Layer>, Sequential>) explicit Sequential(Layer&& layer)
      : Sequential() {
    push_back(std::forward<Layer>(layer));
  }

  // Not while other threads call it.
  template <internal::LayerLike Layer>
  void push_back(Layer&& layer) {
    if constexpr (std::derived_from<std::remove_cvref_t<Layer>, Module>) {
      register_module(std::to_string(size()), layer);
    }
    layers_->emplace_back(std::forward<Layer>(layer));
  }

  size_t size() const { return layers_->size(); }
  Tensor operator()(const Tensor& x) const;

 private:
  std::shared_ptr<std::vector<std::function<Tensor(const Tensor&)>>> layers_;
};

}  // namespace nn

// Without a shape, zeros and ones are initializers.
inline nn::Initializer zeros() { return nn::zeros(); }
inline nn::Initializer ones() { return nn::ones(); }

}  // namespace cohort
