#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "cohort/formula.h"
#include "cohort/nn_ops.h"
#include "cohort/site.h"
#include "cohort/variable.h"

// Neural networks: layers, the initializers of their variables, and modules, which hold both.

namespace cohort {

namespace internal {
struct ModuleState;
// What takes a tensor and gives one.
template <typename T>
concept LayerLike = requires(const std::remove_cvref_t<T>& layer, const Tensor& x) {
  { layer(x) } -> std::convertible_to<Tensor>;
};

// Those that say where in the user's source they were called take a Site after the tensor, or
// after options.
template <typename T>
concept TakesSite = requires(const T& layer, const Tensor& x, Site site) {
  { layer(x, site) } -> std::convertible_to<Tensor>;
};
template <typename T>
concept TakesOptionsAndSite = requires(const T& layer, const Tensor& x, Site site) {
  { layer(x, {}, site) } -> std::convertible_to<Tensor>;
};

// A function of a tensor that tells where it was called, if it can be told.
class LayerFunction {
 public:
  LayerFunction() = default;
  LayerFunction(std::nullptr_t) {}
  template <typename T>
  requires(LayerLike<T> && !std::same_as<std::remove_cvref_t<T>, LayerFunction>)
      LayerFunction(T&& layer) {
    using Layer = std::decay_t<T>;
    if constexpr (std::same_as<Layer, std::function<Tensor(const Tensor&)>>) {
      if (!layer) return;
    }
    call_ = [layer = Layer(std::forward<T>(layer))](const Tensor& x, Site site) -> Tensor {
      if constexpr (TakesSite<Layer>) {
        return layer(x, site);
      } else if constexpr (TakesOptionsAndSite<Layer>) {
        return layer(x, {}, site);
      } else {
        return layer(x);
      }
    };
  }

  explicit operator bool() const { return call_ != nullptr; }
  Tensor operator()(const Tensor& x, Site site = Site::here()) const { return call_(x, site); }

 private:
  std::function<Tensor(const Tensor&, Site)> call_;
};

// What the copies of a layer share and one of them makes: when the layer is made, or when it is
// first called. Thread-safe.
template <typename T>
class MadeOnce {
 public:
  // Null before keep().
  const T* get() const { return made_.load(std::memory_order_acquire); }
  // The first of several that are kept at the same time, for which `then` is called, stays.
  template <typename Then>
  const T& keep(T value, const Then& then) {
    const std::lock_guard lock(mutex_);
    if (!value_) {
      value_.emplace(std::move(value));
      then(*value_);
      made_.store(&*value_, std::memory_order_release);
    }
    return *value_;
  }

 private:
  std::mutex mutex_;
  std::optional<T> value_;
  std::atomic<const T*> made_ = nullptr;
};

struct KernelAndBias;  // what Dense and Conv2d have in common
}  // namespace internal

namespace nn {

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

// What a layer ends with: nn::relu, or any function of a tensor.
using Activation = internal::LayerFunction;

// A penalty on the value of a variable, which joins the loss: a function that gives a scalar.
using Regularizer = std::function<Tensor(const Tensor&)>;

Regularizer l1(double factor = 0.01);  // factor * sum(abs(x))
Regularizer l2(double factor = 0.01);  // factor * sum(x^2)
Regularizer l1_l2(double l1 = 0.01, double l2 = 0.01);

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
//
// A layer that is made without the size of its input has no variables until it is first called: the
// input of that call tells the size. Call a model on one batch, in the strategy's scope, before its
// variables are listed, saved or restored; Trainer::fit does so where it makes backups. Where
// replicas make the first call, all of them make it.
class Module {
 public:
  // Each variable once, with the first path that leads to it: "hidden/kernel".
  NamedVariables named_variables() const;
  std::vector<Variable> variables() const;
  std::vector<Variable> trainable_variables() const;
  // The penalties of the regularizers of this module and all below it, a scalar each, for the
  // values that the variables have now. A loss adds their sum; a replica adds
  // nn::scale_regularization_loss(model.losses()). Trainer does so by itself.
  std::vector<Tensor> losses() const;

  // Whether layers that behave differently in training (Dropout, BatchNorm) do so: this module and
  // all below it. A new module is in training mode.
  void train();
  void eval();
  bool is_training() const;

  // Whether this module and all below it have their variables. A layer that is made without the
  // size of its input has none before its first call.
  bool is_built() const;

 protected:
  // Says that the first call of this module makes variables, or that it has made them.
  void set_built(bool built);

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
  // losses() calls `loss` and lists what it gives, a scalar.
  void add_loss(std::function<Tensor()> loss);
  // The same for the penalty on a variable. An empty regularizer adds nothing.
  void add_regularizer(const Variable& variable, const Regularizer& regularizer);

 private:
  void adopt(std::string_view name, const Module& part);

  std::shared_ptr<internal::ModuleState> state_;
};

struct DenseOptions {
  Activation activation = nullptr;  // none
  bool use_bias = true;
  Initializer kernel_initializer = glorot_uniform();
  Initializer bias_initializer = zeros();
  Regularizer kernel_regularizer = nullptr;  // none
  Regularizer bias_regularizer = nullptr;    // none
  DType dtype = kFloat32;
};
// activation(x @ kernel + bias), for x of shape (..., inputs).
class Dense : public Module {
 public:
  Dense(int64_t inputs, int64_t outputs, const DenseOptions& options = {});
  // The first call tells the number of inputs.
  explicit Dense(int64_t outputs, const DenseOptions& options = {});
  Tensor operator()(const Tensor& x, Site site = Site::here()) const;

  // Throw FailedPrecondition before the first call of a layer that was made without a number of
  // inputs.
  Variable kernel() const { return weights().kernel; }
  std::optional<Variable> bias() const { return weights().bias; }

 private:
  friend struct internal::KernelAndBias;
  struct Weights {
    Variable kernel;
    std::optional<Variable> bias;
  };
  const Weights& weights() const;
  const Weights& make_weights(int64_t inputs, const void* first_call_of = nullptr) const;
  Tensor before_activation(const Tensor& x) const;

  int64_t outputs_;
  DenseOptions options_;
  std::shared_ptr<internal::MadeOnce<Weights>> weights_;
};

struct Conv2dLayerOptions {
  Size2d stride = 1;
  Padding2d padding = PaddingMode::Valid;
  Size2d dilation = 1;
  int64_t groups = 1;
  Activation activation = nullptr;  // none
  bool use_bias = true;
  Initializer kernel_initializer = glorot_uniform();
  Initializer bias_initializer = zeros();
  Regularizer kernel_regularizer = nullptr;  // none
  Regularizer bias_regularizer = nullptr;    // none
  DType dtype = kFloat32;
};
// activation(conv2d(x, kernel) + bias), for x of shape (batch, input channels, height, width).
class Conv2d : public Module {
 public:
  Conv2d(int64_t input_channels, int64_t output_channels, Size2d kernel_size,
         const Conv2dLayerOptions& options = {});
  // The first call tells the number of input channels.
  Conv2d(int64_t output_channels, Size2d kernel_size, const Conv2dLayerOptions& options = {});
  Tensor operator()(const Tensor& x, Site site = Site::here()) const;

  // Throw FailedPrecondition before the first call of a layer that was made without a number of
  // input channels.
  Variable kernel() const { return weights().kernel; }
  std::optional<Variable> bias() const { return weights().bias; }

 private:
  friend struct internal::KernelAndBias;
  struct Weights {
    Variable kernel;
    std::optional<Variable> bias;
  };
  const Weights& weights() const;
  const Weights& make_weights(int64_t input_channels, const void* first_call_of = nullptr) const;
  Tensor before_activation(const Tensor& x) const;

  int64_t output_channels_;
  Size2d kernel_size_;
  Conv2dLayerOptions options_;
  std::shared_ptr<internal::MadeOnce<Weights>> weights_;
};

class MaxPool2d {
 public:
  MaxPool2d(Size2d window, const Pool2dOptions& options = {})
      : window_(window), options_(options) {}
  Tensor operator()(const Tensor& x, Site site = Site::here()) const {
    return max_pool2d(x, window_, options_, site);
  }

 private:
  Size2d window_;
  Pool2dOptions options_;
};

class AvgPool2d {
 public:
  AvgPool2d(Size2d window, const Pool2dOptions& options = {})
      : window_(window), options_(options) {}
  Tensor operator()(const Tensor& x, Site site = Site::here()) const {
    return avg_pool2d(x, window_, options_, site);
  }

 private:
  Size2d window_;
  Pool2dOptions options_;
};

// (batch, ...) to (batch, all the rest).
class Flatten {
 public:
  Tensor operator()(const Tensor& x, Site site = Site::here()) const;
};

// dropout() in training mode, else nothing.
class Dropout : public Module {
 public:
  explicit Dropout(double rate = 0.5);
  Tensor operator()(const Tensor& x, Site site = Site::here()) const;

 private:
  double rate_;
};

// Defaults that differ stand as "torch's; TensorFlow's".
struct BatchNormOptions {
  // torch moves the average variance towards the unbiased variance of the batch (divided by one
  // less than the number of elements), TensorFlow towards the biased one.
  Formula formula = Formula::Torch;
  std::optional<double> epsilon = {};  // 1e-5; 1e-3
  // The share in the new moving averages of the batch's statistics; of the old averages.
  std::optional<double> momentum = {};  // 0.1; 0.99
  DType dtype = kFloat32;
};
// batch_norm() with the batch's statistics in training mode, which also moves the averages, and
// with those averages otherwise. Channels are dimension 1 in either formula.
class BatchNorm : public Module {
 public:
  explicit BatchNorm(int64_t channels, const BatchNormOptions& options = {});
  // The first call tells the number of channels.
  explicit BatchNorm(const BatchNormOptions& options = {});
  Tensor operator()(const Tensor& x, Site site = Site::here()) const;

  // Throw FailedPrecondition before the first call of a layer that was made without a number of
  // channels.
  Variable scale() const { return weights().scale; }
  Variable offset() const { return weights().offset; }
  Variable moving_mean() const { return weights().moving_mean; }
  Variable moving_variance() const { return weights().moving_variance; }

 private:
  struct Weights {
    Variable scale;
    Variable offset;
    Variable moving_mean;
    Variable moving_variance;
  };
  const Weights& weights() const;
  const Weights& make_weights(int64_t channels, const void* first_call_of = nullptr) const;
  void move_averages(const Weights& weights, const Tensor& x, const BatchNormResult& batch) const;

  Formula formula_;
  double epsilon_;
  double share_;  // of the batch's statistics in the new moving averages
  DType dtype_;
  std::shared_ptr<internal::MadeOnce<Weights>> weights_;
};

struct LayerNormOptions {
  Formula formula = Formula::Torch;
  std::optional<double> epsilon = {};  // torch's 1e-5; TensorFlow's 1e-3
  DType dtype = kFloat32;
};
// layer_norm() over the last dimensions, which have these sizes.
class LayerNorm : public Module {
 public:
  explicit LayerNorm(const Shape& sizes, const LayerNormOptions& options = {});
  explicit LayerNorm(int64_t size, const LayerNormOptions& options = {})
      : LayerNorm(Shape{size}, options) {}
  Tensor operator()(const Tensor& x, Site site = Site::here()) const;

  Variable scale() const { return scale_; }
  Variable offset() const { return offset_; }

 private:
  double epsilon_;
  Variable scale_;
  Variable offset_;
};

// Rows of a variable, as of its value. They are always those that it has now, also where
// cache_variable_reads() keeps what is read.
Tensor embedding_lookup(const Variable& table, const Tensor& ids, Site site = Site::here());

struct EmbeddingOptions {
  Initializer initializer = uniform();
  DType dtype = kFloat32;
};
// Ids in [0, count) to vectors of `width`.
class Embedding : public Module {
 public:
  Embedding(int64_t count, int64_t width, const EmbeddingOptions& options = {});
  Tensor operator()(const Tensor& ids, Site site = Site::here()) const;

  Variable table() const { return table_; }

 private:
  Variable table_;
};

struct StringLookupOptions {
  // Ids before those of the vocabulary: 1 means that a string which is not in it gets the id 0, and
  // 0 that such a string is an error.
  int64_t num_oov_indices = 1;
  std::string oov_token = "[UNK]";  // what inverse() gives for that id
};
// Strings to ids: that of a string is its place in the vocabulary, after the ids before it. Each
// call goes over the whole vocabulary, so call it on batches. Traced functions and the functions of
// datasets may call it.
class StringLookup {
 public:
  // Throws InvalidArgument for an empty vocabulary, or for a string that is in it twice.
  explicit StringLookup(std::vector<std::string> vocabulary,
                        const StringLookupOptions& options = {});
  // Ids (int64) in the shape of the strings.
  Tensor operator()(const Tensor& strings, Site site = Site::here()) const;
  // The strings that have these ids.
  Tensor inverse(const Tensor& ids, Site site = Site::here()) const;
  // How many ids there are: what an Embedding needs.
  int64_t vocabulary_size() const { return vocabulary_.size(); }

 private:
  int64_t oov_;        // ids before the vocabulary's
  Tensor vocabulary_;  // by id
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
  Tensor operator()(const Tensor& x, Site site = Site::here()) const;

 private:
  std::shared_ptr<std::vector<cohort::internal::LayerFunction>> layers_;
};

}  // namespace nn

// Without a shape, zeros and ones are initializers.
inline nn::Initializer zeros() { return nn::zeros(); }
inline nn::Initializer ones() { return nn::ones(); }

}  // namespace cohort
