#pragma once

#include "cohort/internal/layer_function.h"
#include "cohort/nn_ops.h"
#include "cohort/optim.h"

// Layers of neural networks, the initializers of their variables, and modules, which hold both.

namespace cohort {

namespace nn {

// Initializer returns the initial value of a variable of that shape and dtype.
using Initializer = std::function<Tensor(const Shape&, DType)>;

Initializer zeros();
Initializer ones();
Initializer constant(double value);
Initializer uniform(double low = -0.05, double high = 0.05);
Initializer normal(double mean = 0, double stddev = 0.05);
Initializer truncated_normal(double mean = 0, double stddev = 0.05);  // within 2 stddev
// For layers that are followed by tanh or softmax (glorot) or by relu (he). The variance is 2 /
// (fan in + fan out), or 2 / fan in, for units with `fan in` inputs and `fan out` outputs.
Initializer glorot_uniform();
Initializer glorot_normal();
Initializer he_uniform();
Initializer he_normal();

// Activation is the last step of a layer: nn::relu, or any function of a tensor.
using Activation = internal::LayerFunction;

// Regularizer returns a scalar penalty on the value of a variable, to be added to the loss.
using Regularizer = std::function<Tensor(const Tensor&)>;

// factor * sum(abs(x)), factor * sum(x^2), and the sum of both.
Regularizer l1(double factor = 0.01, Site site = Site::here());
Regularizer l2(double factor = 0.01, Site site = Site::here());
Regularizer l1_l2(double l1 = 0.01, double l2 = 0.01, Site site = Site::here());

using NamedVariables = std::vector<std::pair<std::string, Variable>>;

// Module is the base of everything that has variables: layers, models and modules of your own. It
// collects variables by path.
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
// Members are made in the order of their declaration, and so are their variables. A Module is a
// handle: copies share variables and mode. Any number of threads may call one module at the same
// time. A call stores nothing in a module except in its variables.
//
// A layer that is made without the size of its input makes its variables in its first call, when it
// sees that size. Call a model on one batch, in the strategy's scope, before you list, save or
// restore its variables; Trainer::fit does so if it makes backups. If the first call happens inside
// replicas, all replicas must make it.
class Module {
 public:
  // Returns each variable once, with the first path that leads to it: "hidden/kernel".
  NamedVariables named_variables() const;
  std::vector<Variable> variables() const;
  std::vector<Variable> trainable_variables() const;
  // Returns the penalties of all regularizers of this module and its submodules, one scalar each,
  // for the current values of the variables. Add their sum to the loss; inside a replica add
  // nn::scale_regularization_loss(model.losses()). Trainer adds the penalties itself.
  std::vector<Tensor> losses(Site site = Site::here()) const;

  // Switch this module and its submodules to training or to inference. Dropout and BatchNorm behave
  // differently in the two modes. A new module is in training mode.
  void train();
  void eval();
  bool is_training() const;

  // Returns whether this module and its submodules have their variables. A layer that is made
  // without the size of its input has none before its first call.
  bool is_built() const;

 protected:
  // Sets whether this module has its variables: false before a first call that makes them.
  void set_built(bool built);

  Module();
  Module(const Module&) = default;
  Module& operator=(const Module&) = default;
  ~Module() = default;

  // Makes `part` a submodule and returns it. Throws InvalidArgument if the name is empty, taken or
  // contains '/'.
  template <std::derived_from<Module> Part>
  Part register_module(std::string_view name, Part part) {
    adopt(name, part);
    return part;
  }
  Variable register_variable(std::string_view name, Variable variable);
  // Adds a penalty to losses(), which calls `loss` for it. `loss` returns a scalar.
  void add_loss(std::function<Tensor()> loss);
  // Adds the penalty on a variable to losses(). An empty regularizer adds nothing.
  void add_regularizer(const Variable& variable, const Regularizer& regularizer);

 private:
  friend struct internal::ModuleAccess;
  void adopt(std::string_view name, const Module& part);

  std::shared_ptr<internal::ModuleState> state_;
};

// DenseOptions sets the activation, bias and initial variables of a Dense layer.
struct DenseOptions {
  Activation activation = nullptr;  // none
  bool use_bias = true;
  Initializer kernel_initializer = glorot_uniform();
  Initializer bias_initializer = zeros();
  Regularizer kernel_regularizer = nullptr;  // none
  Regularizer bias_regularizer = nullptr;    // none
  DType dtype = kFloat32;
};
// Dense computes activation(x @ kernel + bias), for x of shape (..., inputs).
class Dense : public Module {
 public:
  Dense(int64_t inputs, int64_t outputs, const DenseOptions& options = {},
        Site site = Site::here());
  // The first call sets the number of inputs.
  explicit Dense(int64_t outputs, const DenseOptions& options = {});
  Tensor operator()(const Tensor& x, Site site = Site::here()) const;

  // Throw FailedPrecondition before the layer has its number of inputs.
  Variable kernel() const;
  std::optional<Variable> bias() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

// Conv2dLayerOptions sets the geometry, activation, bias and initial variables of a Conv2d layer.
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
// Conv2d computes activation(conv2d(x, kernel) + bias) of images (batch, channels, height, width).
class Conv2d : public Module {
 public:
  Conv2d(int64_t input_channels, int64_t output_channels, Size2d kernel_size,
         const Conv2dLayerOptions& options = {}, Site site = Site::here());
  // The first call sets the number of input channels.
  Conv2d(int64_t output_channels, Size2d kernel_size, const Conv2dLayerOptions& options = {});
  Tensor operator()(const Tensor& x, Site site = Site::here()) const;

  // Throw FailedPrecondition before the layer has its number of input channels.
  Variable kernel() const;
  std::optional<Variable> bias() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

// MaxPool2d computes max_pool2d() with these options.
class MaxPool2d {
 public:
  MaxPool2d(Size2d window, const Pool2dOptions& options = {});
  Tensor operator()(const Tensor& x, Site site = Site::here()) const;

 private:
  Size2d window_;
  Pool2dOptions options_;
};

// AvgPool2d computes avg_pool2d() with these options.
class AvgPool2d {
 public:
  AvgPool2d(Size2d window, const Pool2dOptions& options = {});
  Tensor operator()(const Tensor& x, Site site = Site::here()) const;

 private:
  Size2d window_;
  Pool2dOptions options_;
};

// Flatten reshapes (batch, ...) to (batch, product of the other sizes).
class Flatten {
 public:
  Tensor operator()(const Tensor& x, Site site = Site::here()) const;
};

// Dropout computes dropout() in training mode and returns its input otherwise.
class Dropout : public Module {
 public:
  explicit Dropout(double rate = 0.5);
  Tensor operator()(const Tensor& x, Site site = Site::here()) const;

 private:
  double rate_;
};

// BatchNormOptions sets the formula and the constants. Comments give both defaults where they
// differ: "torch's; TensorFlow's".
struct BatchNormOptions {
  // torch moves the average variance towards the unbiased variance of the batch (divided by n - 1,
  // for n elements), TensorFlow towards the biased variance (divided by n).
  Formula formula = Formula::Torch;
  std::optional<double> epsilon = {};  // 1e-5; 1e-3
  // The share of the batch's statistics (torch) or of the old averages (TensorFlow) in the new
  // moving averages.
  std::optional<double> momentum = {};       // 0.1; 0.99
  Regularizer scale_regularizer = nullptr;   // none
  Regularizer offset_regularizer = nullptr;  // none
  DType dtype = kFloat32;
};
// BatchNorm computes batch_norm(). In training mode it uses the batch's statistics and moves the
// averages; otherwise it uses the averages. Channels are dimension 1 in both formulas.
class BatchNorm : public Module {
 public:
  explicit BatchNorm(int64_t channels, const BatchNormOptions& options = {},
                     Site site = Site::here());
  // The first call sets the number of channels.
  explicit BatchNorm(const BatchNormOptions& options = {});
  Tensor operator()(const Tensor& x, Site site = Site::here()) const;

  // Throw FailedPrecondition before the layer has its number of channels.
  Variable scale() const;
  Variable offset() const;
  Variable moving_mean() const;
  Variable moving_variance() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

// LayerNormOptions sets epsilon and the formula that gives its default.
struct LayerNormOptions {
  Formula formula = Formula::Torch;
  std::optional<double> epsilon = {};        // torch's 1e-5; TensorFlow's 1e-3
  Regularizer scale_regularizer = nullptr;   // none
  Regularizer offset_regularizer = nullptr;  // none
  DType dtype = kFloat32;
};
// LayerNorm computes layer_norm() over the last dimensions, which have these sizes.
class LayerNorm : public Module {
 public:
  explicit LayerNorm(const Shape& sizes, const LayerNormOptions& options = {},
                     Site site = Site::here());
  explicit LayerNorm(int64_t size, const LayerNormOptions& options = {}, Site site = Site::here())
      : LayerNorm(Shape{size}, options, site) {}
  // The first call sets the size of the last dimension.
  explicit LayerNorm(const LayerNormOptions& options = {});
  Tensor operator()(const Tensor& x, Site site = Site::here()) const;

  // Throw FailedPrecondition before the first call of a layer that was made without sizes.
  Variable scale() const;
  Variable offset() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

// Returns rows of the current value of `table`, even inside cache_variable_reads().
Tensor embedding_lookup(const Variable& table, const Tensor& ids, Site site = Site::here());

// EmbeddingOptions sets how the table of an Embedding begins.
struct EmbeddingOptions {
  Initializer initializer = uniform();
  Regularizer regularizer = nullptr;  // none
  DType dtype = kFloat32;
};
// Embedding maps ids in [0, count) to vectors of `width` elements.
class Embedding : public Module {
 public:
  Embedding(int64_t count, int64_t width, const EmbeddingOptions& options = {},
            Site site = Site::here());
  Tensor operator()(const Tensor& ids, Site site = Site::here()) const;

  Variable table() const { return table_; }

 private:
  Variable table_;
};

// StringLookupOptions sets what happens to strings that are not in the vocabulary.
struct StringLookupOptions {
  // The number of ids before the ids of the vocabulary. With 1, an unknown string gets the id 0;
  // with 0, an unknown string is an error.
  int64_t num_oov_indices = 1;
  std::string oov_token = "[UNK]";  // what inverse() returns for the id of unknown strings
};
// StringLookup maps strings to ids: the id of a string is its place in the vocabulary, counted
// after the ids that come before the vocabulary.
//
//   nn::StringLookup lookup({"red", "green", "blue"});
//   nn::Embedding colors(lookup.vocabulary_size(), 8);
//   Tensor vectors = colors(lookup(Tensor({"green", "violet"})));
//
// Each call reads the whole vocabulary, so call it on batches. Traced functions and the functions
// of datasets may call it.
class StringLookup {
 public:
  // Throws InvalidArgument if the vocabulary is empty or contains a string twice.
  explicit StringLookup(std::vector<std::string> vocabulary,
                        const StringLookupOptions& options = {});
  // Returns ids (int64) in the shape of the strings.
  Tensor operator()(const Tensor& strings, Site site = Site::here()) const;
  // Returns the strings that have these ids.
  Tensor inverse(const Tensor& ids, Site site = Site::here()) const;
  // The number of ids, which an Embedding needs.
  int64_t vocabulary_size() const { return vocabulary_.size(); }

 private:
  int64_t oov_;        // ids before the vocabulary's
  Tensor vocabulary_;  // by id
};

// Sequential calls layers one after the other. A layer is any function from a tensor to a tensor.
//
//   nn::Sequential net{nn::Dense(784, 128), nn::relu, nn::Dense(128, 10)};
//   Tensor logits = net(x);
//
// Layers that are modules become submodules, named by their position: "0/kernel". A lambda works
// too, but hides the variables of the modules that it captures.
class Sequential : public Module {
 public:
  Sequential();
  template <typename... Layers>
  requires(sizeof...(Layers) > 1 && (internal::LayerLike<Layers> && ...))
      Sequential(Layers&&... layers);
  template <internal::LayerLike Layer>
  requires(!std::same_as<std::remove_cvref_t<Layer>, Sequential>) explicit Sequential(
      Layer&& layer);

  // Appends a layer. No other thread may call the model meanwhile.
  template <internal::LayerLike Layer>
  void push_back(Layer&& layer);

  size_t size() const { return layers_->size(); }
  Tensor operator()(const Tensor& x, Site site = Site::here()) const;

 private:
  std::shared_ptr<std::vector<cohort::internal::LayerFunction>> layers_;
};

}  // namespace nn

// Without a shape, zeros() and ones() return initializers.
inline nn::Initializer zeros() { return nn::zeros(); }
inline nn::Initializer ones() { return nn::ones(); }

}  // namespace cohort

#include "cohort/internal/sequential_inl.h"  // IWYU pragma: export
