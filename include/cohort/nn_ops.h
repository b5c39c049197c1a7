#pragma once

#include <cstdint>
#include <vector>

#include "cohort/ops.h"
#include "cohort/site.h"
#include "cohort/tensor.h"

// Neural networks: functions on tensors. The layers, which are such functions with variables, are
// in cohort/nn_layers.h.
//
// Images are laid out as (batch, channels, height, width), and a convolution's kernel as (output
// channels, input channels / groups, height, width): LibTorch's layout. A dense kernel is (input
// width, output width). Floating dtypes only; wrong shapes, dtypes and options throw
// InvalidArgument naming the op or layer, what it expected and what it found.

namespace cohort::nn {

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
  // When above 0: this batch is a part of one with that many examples (sizes of dimension 0), and
  // Mean divides as for the whole. The sum over all parts is then the mean over the whole batch:
  // what a step that several replicas share needs.
  int64_t global_batch_size = 0;
};

// Cross entropy between softmax(logits), along the last axis, and labels: class ids of any integer
// dtype (one dimension less than the logits; an id that is not a class is InvalidArgument), or
// probabilities of the logits' shape and a floating dtype.
Tensor softmax_cross_entropy(const Tensor& logits, const Tensor& labels, LossOptions options = {},
                             Site site = Site::here());
// Cross entropy between sigmoid(logits) and labels in [0, 1], element by element. Integer and bool
// labels are converted.
Tensor sigmoid_cross_entropy(const Tensor& logits, const Tensor& labels, LossOptions options = {},
                             Site site = Site::here());
// Cross entropy between probabilities and labels in [0, 1], element by element: for outputs that
// have gone through nn::sigmoid. Probabilities count as at least 1e-7 and at most 1 - 1e-7, so that
// the loss is finite; sigmoid_cross_entropy() of the logits is exact instead.
Tensor binary_cross_entropy(const Tensor& probabilities, const Tensor& labels,
                            LossOptions options = {}, Site site = Site::here());
// (predictions - targets)^2, element by element. The shapes must be equal: nothing broadcasts.
Tensor mean_squared_error(const Tensor& predictions, const Tensor& targets,
                          LossOptions options = {}, Site site = Site::here());

struct AverageLossOptions {
  // Of the losses' shape, or of their first dimensions; 1 when undefined.
  Tensor sample_weight = {};
  // Samples of all replicas: a number, or a scalar such as DistributedElement::global_batch_size().
  // Undefined: those of this replica times the replicas in sync, which is right when all replicas
  // have as many.
  Tensor global_batch_size = {};
};
// What one replica contributes to the mean of a loss over the global batch:
// sum(per_example_loss * sample_weight) / global_batch_size. The sum over the replicas, which
// optimizers and ReduceOp::Sum make, is then that mean. The losses have one number per example, or
// more, along dimension 0; an empty batch gives 0. Throws FailedPrecondition outside a replica
// when global_batch_size is undefined: a scope does not tell how many samples a replica has.
Tensor compute_average_loss(const Tensor& per_example_loss, const AverageLossOptions& options = {},
                            Site site = Site::here());
// What one replica contributes to a loss that all replicas have alike, such as a penalty on
// variables: the sum of its elements divided by the replicas in sync. Throws FailedPrecondition
// outside a replica.
Tensor scale_regularization_loss(const Tensor& loss, Site site = Site::here());
// The same for the sum of several: Module::losses(). The sum of none is 0.
Tensor scale_regularization_loss(const std::vector<Tensor>& losses, Site site = Site::here());

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
  int64_t groups = 1;  // channels are split into this many independent convolutions
};
Tensor conv2d(const Tensor& x, const Tensor& kernel, const Conv2dOptions& options = {},
              Site site = Site::here());
// With bias[c] added to output channel c.
Tensor conv2d(const Tensor& x, const Tensor& kernel, const Tensor& bias,
              const Conv2dOptions& options, Site site = Site::here());

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

}  // namespace cohort::nn
