// Softmax cross entropy with class ids: log-softmax and the choice of the class in one op, and
// softmax minus one-hot in its gradient. With probabilities as labels it is written in public ops.

#include <ATen/Dispatch.h>

#include "base/raise.h"
#include "cohort/nn_ops.h"
#include "ops/loss.h"
#include "ops/nn_common.h"

namespace cohort {
namespace internal {
namespace {

using Grads = std::span<const Tensor>;

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
  if (!is_integer(inputs.dtype(1))) {
    raise(Code::InvalidArgument, "[{}] class ids must be integers, got {}", kName,
          to_string(inputs.dtype(1)));
  }
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
    const scalar_t* from = log_probs.data_ptr<scalar_t>();
    scalar_t* to = loss.data_ptr<scalar_t>();
    const int64_t* id = ids.data_ptr<int64_t>();
    for (int64_t i = 0; i < rows; ++i) to[i] = -from[i * classes + id[i]];
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
    scalar_t* row = result.data_ptr<scalar_t>();
    const scalar_t* factor = scale.data_ptr<scalar_t>();
    const int64_t* id = ids.data_ptr<int64_t>();
    for (int64_t i = 0; i < rows; ++i, row += classes) {
      row[id[i]] -= 1;
      for (int64_t j = 0; j < classes; ++j) row[j] *= factor[i];
    }
  });
  return result;
}

Tensor per_row(const Tensor& x) { return expand_dims(x, -1); }

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
};

namespace {

Tensor dense_cross_entropy(const Tensor& logits, const Tensor& labels, Site site) {
  if (!logits.shape().is_compatible_with(labels.shape())) {
    raise(Code::InvalidArgument,
          "[{}] probabilities must have the logits' shape {}, got {}; class ids must be integers",
          kName, logits.shape().to_string(), labels.shape().to_string());
  }
  return neg(sum(cast(labels, logits.dtype()) * nn::log_softmax(logits, {}, site), -1), site);
}

}  // namespace
}  // namespace internal

namespace nn {

Tensor softmax_cross_entropy(const Tensor& logits, const Tensor& labels, LossOptions options,
                             Site site) {
  const bool dense = logits.defined() && labels.defined() && is_floating(labels.dtype());
  const Tensor losses = dense ? cohort::internal::dense_cross_entropy(logits, labels, site)
                              : cohort::internal::apply_many(
                                    cohort::internal::kSoftmaxCrossEntropy,
                                    std::initializer_list<Tensor>{logits, labels}, {}, site)[0];
  return cohort::internal::reduce_loss("SoftmaxCrossEntropy", losses, options, site);
}

}  // namespace nn
}  // namespace cohort
