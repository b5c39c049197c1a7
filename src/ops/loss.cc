#include "ops/loss.h"

#include "base/raise.h"
#include "ops/all_ops.h"
#include "ops/nn_common.h"

namespace cohort {
namespace internal {
namespace {

using Grads = std::span<const Tensor>;

// What the sum of the losses is multiplied by.
double loss_scale(const Attrs& attrs, const at::Tensor& losses) {
  const int64_t batch = attrs.integer("global_batch_size");
  if (!attrs.flag("mean")) return 1;
  if (batch == 0) return 1.0 / static_cast<double>(losses.numel());
  const bool has_examples = losses.dim() > 0 && losses.size(0) > 0;
  const int64_t example = has_examples ? losses.numel() / losses.size(0) : 1;
  return 1.0 / (static_cast<double>(batch) * static_cast<double>(example));
}

// (predictions, targets): the same shape, nothing broadcasts.
Specs infer_same_shapes(const OpInputs& inputs) {
  require_same_dtype(inputs);
  return {{inputs.dtype(0), require_same_shape(inputs, 0, 1)}};
}

}  // namespace

// ReduceLoss and ReduceLossGrad are linear, and each is the other's gradient.
extern constexpr OpDef kReduceLossGrad{
    .name = "ReduceLossGrad",
    .inputs = 2,  // (g, losses)
    .dtypes = kFloatTypes,
    .attrs = {{"mean", AttrKind::Bool}, {"global_batch_size", AttrKind::Int}},
    .infer = [](const OpInputs& inputs) -> Specs {
      require_rank(inputs.op, inputs.shape(0), 0, "the gradient");
      require_same_dtype(inputs);
      return {{inputs.dtype(0), inputs.shape(1)}};
    },
    .compute =
        [](Kernel& k) {
          const double scale = loss_scale(k.attrs, in(k, 1));
          const at::Tensor share = at::mul(in(k, 0), at::Scalar(scale));
          set(k, share.expand(in(k, 1).sizes()));
        },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      return {apply(kReduceLoss, {g[0]}, call.attrs), {}};
    },
};

extern constexpr OpDef kReduceLoss{
    .name = "ReduceLoss",
    .inputs = 1,
    .dtypes = kFloatTypes,
    .attrs = {{"mean", AttrKind::Bool}, {"global_batch_size", AttrKind::Int}},
    .infer = [](const OpInputs& inputs) -> Specs {
      if (inputs.attrs.integer("global_batch_size") < 0) {
        raise(Code::InvalidArgument, "[{}] global_batch_size must not be negative, got {}",
              inputs.op, inputs.attrs.integer("global_batch_size"));
      }
      return {{inputs.dtype(0), Shape{}}};
    },
    .compute =
        [](Kernel& k) {
          const double scale = loss_scale(k.attrs, in(k));
          set_narrowed(k, at::sum(widened(in(k))).mul_(at::Scalar(scale)));
        },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      return {apply(kReduceLossGrad, {g[0], call.inputs[0]}, call.attrs)};
    },
};

extern constexpr OpDef kSquaredError{
    .name = "SquaredError",
    .inputs = 2,
    .dtypes = kFloatTypes,
    .infer = infer_same_shapes,
    .compute =
        [](Kernel& k) {
          at::Tensor difference = at::sub(widened(in(k, 0)), widened(in(k, 1)));
          set_narrowed(k, difference.mul_(difference));
        },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      const Tensor gradient = g[0] * (call.inputs[0] - call.inputs[1]) * 2;
      return {gradient, call.wants(1) ? -gradient : Tensor()};
    },
    .traits = Trait::OneDType,
};

extern constexpr OpDef kSigmoidCrossEntropy{
    .name = "SigmoidCrossEntropy",
    .inputs = 2,  // (logits, labels)
    .dtypes = kFloatTypes,
    .infer = infer_same_shapes,
    .compute =
        [](Kernel& k) {
          set_narrowed(k, at::binary_cross_entropy_with_logits(widened(in(k, 0)), widened(in(k, 1)),
                                                               {}, {}, at::Reduction::None));
        },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      const Tensor& logits = call.inputs[0];
      return {g[0] * (sigmoid(logits) - call.inputs[1]), call.wants(1) ? -g[0] * logits : Tensor()};
    },
    .traits = Trait::OneDType,
};

extern constexpr OpDef kL2Loss{
    .name = "L2Loss",
    .inputs = 1,
    .dtypes = kFloatTypes,
    .infer = [](const OpInputs& inputs) -> Specs {
      return {{inputs.dtype(0), Shape{}}};
    },
    .compute =
        [](Kernel& k) {
          const at::Tensor flat = widened(in(k)).reshape({-1});
          set_narrowed(k, at::dot(flat, flat).mul_(0.5));
        },
    .gradient = [](const OpCall& call, Grads g) -> Gradients { return {g[0] * call.inputs[0]}; },
};

Tensor reduce_loss(std::string_view op, const Tensor& losses, const nn::LossOptions& options,
                   Site site) {
  if (options.global_batch_size < 0) {
    raise(Code::InvalidArgument, "[{}] global_batch_size must not be negative, got {}", op,
          options.global_batch_size);
  }
  if (options.global_batch_size > 0 && options.reduction != nn::Reduction::Mean) {
    raise(Code::InvalidArgument,
          "[{}] global_batch_size {} goes with Reduction::Mean only: it says what to divide by", op,
          options.global_batch_size);
  }
  if (options.reduction == nn::Reduction::None) return losses;
  return apply(kReduceLoss, {losses},
               {{"mean", options.reduction == nn::Reduction::Mean},
                {"global_batch_size", options.global_batch_size}},
               site);
}

}  // namespace internal

namespace nn {

using cohort::internal::apply;
using cohort::internal::reduce_loss;

namespace {

// Labels as numbers of the predictions' dtype.
Tensor as_targets(const Tensor& labels, const Tensor& predictions) {
  const bool convert = predictions.defined() && labels.defined() && is_numeric(labels.dtype()) &&
                       !is_floating(labels.dtype());
  return convert ? cast(labels, predictions.dtype()) : labels;
}

// Where 1 - 1e-7 is not 1.
Tensor at_least_float32(const Tensor& x, Site site) {
  return x.dtype() == kFloat64 ? x : cast(x, kFloat32, site);
}

void check_probabilities(const Tensor& probabilities, const Tensor& labels) {
  if (is_floating(probabilities.dtype()) && is_floating(labels.dtype()) &&
      probabilities.shape().is_compatible_with(labels.shape())) {
    return;
  }
  cohort::internal::raise(Code::InvalidArgument,
                          "[BinaryCrossEntropy] expected floating probabilities and labels of the "
                          "same shape, got {} {} and {} {}",
                          to_string(probabilities.dtype()), probabilities.shape().to_string(),
                          to_string(labels.dtype()), labels.shape().to_string());
}

}  // namespace

Tensor sigmoid_cross_entropy(const Tensor& logits, const Tensor& labels, LossOptions options,
                             Site site) {
  const Tensor losses =
      apply(cohort::internal::kSigmoidCrossEntropy, {logits, as_targets(labels, logits)}, {}, site);
  return reduce_loss("SigmoidCrossEntropy", losses, options, site);
}

Tensor binary_cross_entropy(const Tensor& probabilities, const Tensor& labels, LossOptions options,
                            Site site) {
  const Tensor targets = as_targets(labels, probabilities);
  check_probabilities(probabilities, targets);
  const Tensor p = clip(at_least_float32(probabilities, site), 1e-7, 1 - 1e-7, site);
  const Tensor y = at_least_float32(targets, site);
  const Tensor losses = neg(y * log(p, site) + (1.0 - y) * log(1.0 - p, site), site);
  return reduce_loss("BinaryCrossEntropy", cast(losses, probabilities.dtype(), site), options,
                     site);
}

Tensor mean_squared_error(const Tensor& predictions, const Tensor& targets, LossOptions options,
                          Site site) {
  const Tensor losses = apply(cohort::internal::kSquaredError, {predictions, targets}, {}, site);
  return reduce_loss("MeanSquaredError", losses, options, site);
}

Tensor l2_loss(const Tensor& x, Site site) {
  return apply(cohort::internal::kL2Loss, {x}, {}, site);
}

}  // namespace nn
}  // namespace cohort
