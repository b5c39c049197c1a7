#pragma once

#include "cohort/ops.h"

// Functions of neural networks on tensors. cohort/nn_layers.h has the layers, which add variables.
//
// Images have the shape (batch, channels, height, width), and the kernel of a convolution (output
// channels, input channels / groups, height, width), as in LibTorch. A dense kernel is (input
// width, output width). Dtypes must be floating. Wrong shapes, dtypes and options throw
// InvalidArgument, naming the op or layer, what it expected and what it found.

#include "cohort/internal/activations.h"  // IWYU pragma: export

namespace cohort::nn {

// Activations. Each activation is a constant function object: call it, nn::relu(x), or pass it as a
// value, nn::Sequential{nn::Dense(4, 8), nn::relu}. Some take options, whose defaults the comments
// give: nn::leaky_relu(x, {.slope = 0.2}).

inline constexpr functions::Relu relu{};             // max(x, 0)
inline constexpr functions::Relu6 relu6{};           // min(max(x, 0), 6)
inline constexpr functions::LeakyRelu leaky_relu{};  // x, or slope * x below 0: {.slope = 0.01}
inline constexpr functions::Elu elu{};    // x, or alpha * (exp(x) - 1) below 0: {.alpha = 1}
inline constexpr functions::Gelu gelu{};  // x * P(a normal variable <= x), exact
inline constexpr functions::Softplus softplus{};  // log(1 + exp(x))
inline constexpr functions::Sigmoid sigmoid{};    // 1 / (1 + exp(-x))
inline constexpr functions::Tanh tanh{};
inline constexpr functions::Softmax softmax{};         // exp(x) / sum(exp(x)): {.axis = -1}
inline constexpr functions::LogSoftmax log_softmax{};  // its logarithm, exact if it is tiny

// Losses. Each computes a number per example or element; `reduction` combines the numbers.

enum class Reduction { Mean, Sum, None };

// LossOptions sets how the numbers of a loss are combined.
struct LossOptions {
  Reduction reduction = Reduction::Mean;
  // If above 0, the number of examples (size of dimension 0) of the whole batch of which this batch
  // is a part. Mean then divides by the size of the whole batch, so that the sum over all parts is
  // the mean over the whole batch. A step on several replicas needs this.
  int64_t global_batch_size = 0;
};

// Cross entropy between softmax(logits), along the last axis, and labels. The labels are class ids
// of any integer dtype, with one dimension less than the logits, or floating probabilities of the
// logits' shape. Throws InvalidArgument if an id is not a class.
Tensor softmax_cross_entropy(const Tensor& logits, const Tensor& labels, LossOptions options = {},
                             Site site = Site::here());
// Cross entropy between sigmoid(logits) and labels in [0, 1], element by element. The labels may
// also be integers or bools.
Tensor sigmoid_cross_entropy(const Tensor& logits, const Tensor& labels, LossOptions options = {},
                             Site site = Site::here());
// Cross entropy between probabilities, such as outputs of nn::sigmoid, and labels in [0, 1],
// element by element. To keep the loss finite, probabilities are clipped to [1e-7, 1 - 1e-7];
// sigmoid_cross_entropy() of the logits is exact instead.
Tensor binary_cross_entropy(const Tensor& probabilities, const Tensor& labels,
                            LossOptions options = {}, Site site = Site::here());
// (predictions - targets)^2, element by element. The shapes must be equal; nothing broadcasts.
Tensor mean_squared_error(const Tensor& predictions, const Tensor& targets,
                          LossOptions options = {}, Site site = Site::here());

// AverageLossOptions sets the weights and the divisor of compute_average_loss().
struct AverageLossOptions {
  // The weights have the shape of the losses, or of their first dimensions. Undefined means 1.
  Tensor sample_weight = {};
  // The number of samples of all replicas: a number, or a scalar such as
  // DistributedElement::global_batch_size(). Undefined means the samples of this replica times the
  // replicas in sync, which is right if all replicas have equally many samples.
  Tensor global_batch_size = {};
};
// Returns what one replica contributes to the mean of a loss over the global batch:
// sum(per_example_loss * sample_weight) / global_batch_size. Optimizers and ReduceOp::Sum add the
// contributions of all replicas, which gives that mean. The losses have one or more numbers per
// example along dimension 0; an empty batch gives 0. Throws FailedPrecondition outside a replica if
// global_batch_size is undefined, because only a replica knows its number of samples.
Tensor compute_average_loss(const Tensor& per_example_loss, const AverageLossOptions& options = {},
                            Site site = Site::here());
// Returns what one replica contributes to a loss that is the same on all replicas, such as a
// penalty on variables: the sum of its elements divided by the replicas in sync. Throws
// FailedPrecondition outside a replica.
Tensor scale_regularization_loss(const Tensor& loss, Site site = Site::here());
// The same for the sum of several losses, such as Module::losses(). The sum of no losses is 0.
Tensor scale_regularization_loss(const std::vector<Tensor>& losses, Site site = Site::here());

// Returns sum(x^2) / 2.
Tensor l2_loss(const Tensor& x, Site site = Site::here());

// Returns x @ kernel + bias, for x of shape (..., input width).
Tensor dense(const Tensor& x, const Tensor& kernel, const Tensor& bias, Site site = Site::here());
// Returns x with bias[i] added at index i of `axis`.
Tensor bias_add(const Tensor& x, const Tensor& bias, int axis = -1, Site site = Site::here());

// Size2d is a height and a width. One number sets both.
struct Size2d {
  constexpr Size2d(int64_t both) : height(both), width(both) {}
  constexpr Size2d(int64_t h, int64_t w) : height(h), width(w) {}

  int64_t height;
  int64_t width;
};

// Valid adds no padding. Same adds as many zeros as make the size of the output the size of the
// input divided by the stride, rounded up. An odd zero is added at the bottom or right.
enum class PaddingMode { Valid, Same };

// Padding2d is a mode, or the number of rows and columns that are added on each side.
struct Padding2d {
  constexpr Padding2d(PaddingMode mode) : same(mode == PaddingMode::Same), amount(0) {}
  constexpr Padding2d(int64_t both) : same(false), amount(both) {}
  constexpr Padding2d(int64_t h, int64_t w) : same(false), amount(h, w) {}

  bool same;
  Size2d amount;
};

// Conv2dOptions sets the geometry of conv2d().
struct Conv2dOptions {
  Size2d stride = 1;
  Padding2d padding = PaddingMode::Valid;
  Size2d dilation = 1;
  int64_t groups = 1;  // number of independent convolutions that share the channels
};
// Returns the convolution of images with a kernel.
Tensor conv2d(const Tensor& x, const Tensor& kernel, const Conv2dOptions& options = {},
              Site site = Site::here());
// The same with bias[c] added to output channel c.
Tensor conv2d(const Tensor& x, const Tensor& kernel, const Tensor& bias,
              const Conv2dOptions& options, Site site = Site::here());

// Pool2dOptions sets the geometry of max_pool2d() and avg_pool2d().
struct Pool2dOptions {
  Size2d stride = 0;                       // 0: the window's size
  Padding2d padding = PaddingMode::Valid;  // at most half the window
};
// Return the largest element, or the mean, of each window. Padding does not count in either.
Tensor max_pool2d(const Tensor& x, Size2d window, const Pool2dOptions& options = {},
                  Site site = Site::here());
Tensor avg_pool2d(const Tensor& x, Size2d window, const Pool2dOptions& options = {},
                  Site site = Site::here());

// NormOptions sets the constant of batch_norm() and layer_norm().
struct NormOptions {
  double epsilon = 1e-5;  // added to the variance
};
// BatchNormResult is the result of batch_norm() in training.
struct BatchNormResult {
  Tensor y;
  // Statistics of each channel of this batch, for moving averages. No gradient flows through them.
  // The variance divides by n - 1.
  Tensor mean;
  Tensor variance;
};
// Training: normalises x to mean 0 and variance 1 in each channel (dimension 1) with the batch's
// own statistics, then multiplies by `scale` and adds `offset`, both of shape (channels,).
BatchNormResult batch_norm(const Tensor& x, const Tensor& scale, const Tensor& offset,
                           NormOptions options = {}, Site site = Site::here());
// Inference: normalises with the given statistics instead.
Tensor batch_norm(const Tensor& x, const Tensor& scale, const Tensor& offset, const Tensor& mean,
                  const Tensor& variance, NormOptions options = {}, Site site = Site::here());
// Normalises each example over its last dimensions, which have the shape of `scale` and `offset`.
Tensor layer_norm(const Tensor& x, const Tensor& scale, const Tensor& offset,
                  NormOptions options = {}, Site site = Site::here());

// DropoutOptions sets how much dropout() drops.
struct DropoutOptions {
  double rate = 0.5;  // share of elements that become 0; the others grow by 1 / (1 - rate)
};
// Sets random elements of x to 0.
Tensor dropout(const Tensor& x, DropoutOptions options = {}, Site site = Site::here());

// Returns the rows of `table` at `ids` (int32 or int64, any shape). The gradient is IndexedSlices:
// only the rows that were read.
Tensor embedding_lookup(const Tensor& table, const Tensor& ids, Site site = Site::here());

}  // namespace cohort::nn
