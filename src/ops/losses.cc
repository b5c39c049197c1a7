// Losses. Softmax cross entropy with class ids is one op: log-softmax and the choice of the class,
// and softmax minus one-hot in its gradient. With probabilities as labels it is written in public
// ops.

#include <ATen/Dispatch.h>

#include "base/raise.h"
#include "base/site_scope.h"
#include "cohort/nn_ops.h"
#include "kernels/softmax_cross_entropy.h"
#include "ops/all_ops.h"
#include "ops/kernel.h"

namespace cohort {
namespace internal {
namespace {

// What the sum of the losses is multiplied by.
double loss_scale(const Attrs& attrs, const at::Tensor& losses) {
  const int64_t batch = attrs.integer("global_batch_size");
  if (!attrs.flag("mean")) return 1;
  if (batch == 0) return 1.0 / static_cast<double>(losses.numel());
  const bool has_examples = losses.dim() > 0 && losses.size(0) > 0;
  const int64_t example = has_examples ? losses.numel() / losses.size(0) : 1;
  return 1.0 / (static_cast<double>(batch) * static_cast<double>(example));
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
    .gradient = by_input<kReduceLossGrad>,
};

extern constexpr OpDef kSquaredError{
    .name = "SquaredError",
    .inputs = 2,
    .dtypes = kFloatTypes,
    .infer = infer_alike,  // nothing broadcasts
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
    .infer = infer_alike,  // nothing broadcasts
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

namespace {

// One loss, or all of them, out of many. `op` is the loss function's name, for messages.
Tensor reduce_loss(std::string_view op, const Tensor& losses, const nn::LossOptions& options,
                   Site site) {
  if (options.global_batch_size < 0) {
    raise(Code::InvalidArgument, "[{}] global_batch_size must not be negative, got {}", op,
          options.global_batch_size);
  }
  if (options.global_batch_size > 0 && options.reduction != nn::Reduction::Mean) {
    raise(Code::InvalidArgument,
          "[{}] global_batch_size {} is for Reduction::Mean only, which divides by it", op,
          options.global_batch_size);
  }
  if (options.reduction == nn::Reduction::None) return losses;
  return apply(kReduceLoss, {losses},
               {{"mean", options.reduction == nn::Reduction::Mean},
                {"global_batch_size", options.global_batch_size}},
               site);
}

constexpr std::string_view kName = "SoftmaxCrossEntropy";

// The shape of labels that fit logits of this shape.
Shape rows_of(const Shape& logits) { return logits.has_rank() ? logits.without(-1) : logits; }

Specs infer_sparse(const OpInputs& inputs) {
  const Shape& logits = inputs.shape(0);
  const Shape& labels = inputs.shape(1);
  require_rank_at_least(kName, logits, 1, "logits");
  if (!is_floating(inputs.dtype(0))) {
    raise(Code::InvalidArgument, "[{}] logits must be floating, got {}", kName,
          to_string(inputs.dtype(0)));
  }
  require_integers({kName, inputs.tensors, inputs.attrs}, 1, "class ids");
  if (!rows_of(logits).is_compatible_with(labels)) {
    raise(Code::InvalidArgument,
          "[{}] logits of shape {} need class ids of shape {}, or probabilities of the logits' "
          "shape and dtype; got labels of shape {} and dtype {}",
          kName, logits.to_string(), rows_of(logits).to_string(), labels.to_string(),
          to_string(inputs.dtype(1)));
  }
  return {{inputs.dtype(0), rows_of(logits).merged_with(labels)}, {inputs.dtype(0), logits}};
}

// Labels as contiguous int64, one per row of `classes`; each is a class.
at::Tensor checked_ids(const at::Tensor& labels, int64_t rows, int64_t classes) {
  at::Tensor ids = labels.to(at::kLong).contiguous();
  require_count(kName, rows, ids.numel());
  const int64_t* id = ids.data_ptr<int64_t>();
  for (int64_t i = 0; i < rows; ++i) {
    if (id[i] >= 0 && id[i] < classes) continue;
    raise(Code::InvalidArgument,
          "[{}] label {} at position {} is not one of the {} classes, 0 to {}", kName, id[i], i,
          classes, classes - 1);
  }
  return ids;
}

int64_t num_rows(const at::Tensor& logits) {
  return logits.size(-1) == 0 ? 0 : logits.numel() / logits.size(-1);
}

at::Tensor negated_choice(const at::Tensor& log_probs, const at::Tensor& labels) {
  const int64_t classes = log_probs.size(-1);
  const int64_t rows = classes == 0 ? labels.numel() : num_rows(log_probs);
  const at::Tensor ids = checked_ids(labels, rows, classes);
  at::Tensor loss = at::empty(labels.sizes(), log_probs.options());
  AT_DISPATCH_FLOATING_TYPES(log_probs.scalar_type(), "softmax_cross_entropy", [&] {
    negated_choice(ClassRows{rows, classes, ids.data_ptr<int64_t>()},
                   log_probs.data_ptr<scalar_t>(), loss.data_ptr<scalar_t>());
  });
  return loss;
}

// g * (exp(log_probs) - one_hot(labels)), g being one number per row.
at::Tensor logits_gradient(const at::Tensor& g, const at::Tensor& log_probs,
                           const at::Tensor& labels) {
  const int64_t classes = log_probs.size(-1);
  const int64_t rows = num_rows(log_probs);
  const at::Tensor ids = checked_ids(labels, rows, classes);
  const at::Tensor scale = g.contiguous();
  require_count(kName, rows, scale.numel());
  at::Tensor result = at::exp(log_probs).contiguous();
  AT_DISPATCH_FLOATING_TYPES(result.scalar_type(), "softmax_cross_entropy_grad", [&] {
    make_logits_gradient(ClassRows{rows, classes, ids.data_ptr<int64_t>()},
                         scale.data_ptr<scalar_t>(), result.data_ptr<scalar_t>());
  });
  return result;
}

Tensor per_row(const Tensor& x) { return expand_dims(x, -1); }

Tensor dense_cross_entropy(const Tensor& logits, const Tensor& labels, Site site) {
  if (!logits.shape().is_compatible_with(labels.shape())) {
    raise(Code::InvalidArgument,
          "[{}] probabilities must have the logits' shape {}, got {}; class ids must be integers",
          kName, logits.shape().to_string(), labels.shape().to_string());
  }
  const SiteScope there(site);
  return neg(sum(cast(labels, logits.dtype()) * nn::log_softmax(logits), -1));
}

}  // namespace

extern constexpr OpDef kSoftmaxCrossEntropyGrad{
    .name = "SoftmaxCrossEntropyGrad",
    .inputs = 4,  // (g, logits, log-softmax of the logits, labels)
    .dtypes = kNumberTypes,
    .infer = [](const OpInputs& inputs) -> Specs {
      const Tensor forward[] = {inputs[1], inputs[3]};
      const Specs specs = infer_sparse({inputs.op, forward, inputs.attrs});
      if (!specs[0].shape.is_compatible_with(inputs.shape(0)) ||
          inputs.dtype(0) != specs[0].dtype || inputs.dtype(2) != specs[0].dtype) {
        raise(Code::InvalidArgument, "[{}] gradient {} of {} does not fit logits {} of {}",
              inputs.op, inputs.shape(0).to_string(), to_string(inputs.dtype(0)),
              inputs.shape(1).to_string(), to_string(inputs.dtype(1)));
      }
      return {{specs[1].dtype, require_same_shape(inputs, 1, 2)}};
    },
    .compute =
        [](Kernel& k) {
          set_narrowed(k, logits_gradient(widened(in(k, 0)), widened(in(k, 2)), in(k, 3)));
        },
    // The log-softmax is a function of the logits; its share is in theirs.
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      const Tensor& first = call.inputs[0];
      const Tensor& log_probs = call.inputs[2];
      const Tensor unit = apply(kSoftmaxCrossEntropyGrad,
                                {ones_like(first), call.inputs[1], log_probs, call.inputs[3]});
      const Tensor probs = exp(log_probs);
      const Tensor weighted = g[0] * per_row(first) * probs;
      return {sum(g[0] * unit, -1), weighted - probs * sum(weighted, -1, KeepDims::Yes), {}, {}};
    },
    .traits = Trait::HostKernel,
};

extern constexpr OpDef kSoftmaxCrossEntropy{
    .name = kName,
    .inputs = 2,  // (logits, labels) -> (one loss per row, log-softmax of the logits)
    .dtypes = kNumberTypes,
    .infer = infer_sparse,
    .compute =
        [](Kernel& k) {
          const at::Tensor log_probs = at::_log_softmax(widened(in(k, 0)), -1, false).contiguous();
          set_narrowed(k, negated_choice(log_probs, in(k, 1)), 0);
          set_narrowed(k, log_probs, 1);
        },
    // The second output is for the gradient alone.
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      return {
          apply(kSoftmaxCrossEntropyGrad, {g[0], call.inputs[0], call.outputs[1], call.inputs[1]}),
          {}};
    },
    .traits = Trait::HostKernel,
};

}  // namespace internal

namespace nn {

using cohort::internal::apply;
using cohort::internal::reduce_loss;

namespace {

// Labels as numbers of the predictions' dtype.
Tensor as_targets(const Tensor& labels, const Tensor& predictions, Site site) {
  const bool convert = predictions.defined() && labels.defined() && is_numeric(labels.dtype()) &&
                       !is_floating(labels.dtype());
  return convert ? cast(labels, predictions.dtype(), site) : labels;
}

// Where 1 - 1e-7 is not 1.
Tensor at_least_float32(const Tensor& x) { return x.dtype() == kFloat64 ? x : cast(x, kFloat32); }

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
  const Tensor losses = apply(cohort::internal::kSigmoidCrossEntropy,
                              {logits, as_targets(labels, logits, site)}, {}, site);
  return reduce_loss("SigmoidCrossEntropy", losses, options, site);
}

Tensor binary_cross_entropy(const Tensor& probabilities, const Tensor& labels, LossOptions options,
                            Site site) {
  const cohort::internal::SiteScope there(site);
  const Tensor targets = as_targets(labels, probabilities, site);
  check_probabilities(probabilities, targets);
  const Tensor p = clip(at_least_float32(probabilities), 1e-7, 1 - 1e-7);
  const Tensor y = at_least_float32(targets);
  const Tensor losses = neg(y * log(p) + (1.0 - y) * log(1.0 - p));
  return reduce_loss("BinaryCrossEntropy", cast(losses, probabilities.dtype()), options, site);
}

Tensor mean_squared_error(const Tensor& predictions, const Tensor& targets, LossOptions options,
                          Site site) {
  const Tensor losses = apply(cohort::internal::kSquaredError, {predictions, targets}, {}, site);
  return reduce_loss("MeanSquaredError", losses, options, site);
}

Tensor l2_loss(const Tensor& x, Site site) {
  return apply(cohort::internal::kL2Loss, {x}, {}, site);
}

Tensor softmax_cross_entropy(const Tensor& logits, const Tensor& labels, LossOptions options,
                             Site site) {
  const bool dense = logits.defined() && labels.defined() && is_floating(labels.dtype());
  const Tensor losses = dense ? cohort::internal::dense_cross_entropy(logits, labels, site)
                              : cohort::internal::apply_many(
                                    cohort::internal::kSoftmaxCrossEntropy,
                                    std::initializer_list<Tensor>{logits, labels}, {}, site)[0];
  return reduce_loss("SoftmaxCrossEntropy", losses, options, site);
}

}  // namespace nn
}  // namespace cohort
