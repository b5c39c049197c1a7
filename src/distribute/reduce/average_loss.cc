// What one replica contributes to a loss of all replicas.

#include "base/raise.h"
#include "base/site_scope.h"
#include "cohort/nn_ops.h"
#include "cohort/strategy_extended.h"

namespace cohort::nn {
namespace {

using cohort::internal::raise;

void require_replica(std::string_view op, std::string_view remedy) {
  if (!has_strategy() || !in_cross_replica_context()) return;
  raise(Code::FailedPrecondition,
        "[{}] expected a replica, but this is the cross-replica context of {}; {}", op,
        get_strategy().extended().name(), remedy);
}

// The weights with a dimension for each of the losses: (batch,) or (batch, 1) for (batch, steps),
// and (batch, 1) for (batch,).
Tensor fitted(const Tensor& weight, const Tensor& losses) {
  const Shape own = weight.shape();
  const Shape wanted = losses.shape();
  if (!own.has_rank() || !wanted.has_rank() || own.rank() == 0) return weight;
  if (own.rank() == wanted.rank() + 1 && own[-1] == 1) return squeeze(weight, -1);
  Tensor fitted = weight;
  for (int rank = own.rank(); rank < wanted.rank(); ++rank) fitted = expand_dims(fitted, -1);
  return fitted;
}

Tensor weighted(const Tensor& losses, const Tensor& weight) {
  if (!weight.defined()) return losses;
  const Tensor product = losses * cast(fitted(weight, losses), losses.dtype());
  if (!product.shape().is_compatible_with(losses.shape())) {
    raise(Code::InvalidArgument,
          "[compute_average_loss] sample_weight must have the shape of the losses, {}, or of their "
          "first dimensions, got {}",
          losses.shape().to_string(), weight.shape().to_string());
  }
  return product;
}

void check_batch_size(const Tensor& size, const Shape& losses) {
  if (!is_integer(size.dtype()) || (size.shape().has_rank() && size.shape().rank() != 0)) {
    raise(Code::InvalidArgument,
          "[compute_average_loss] global_batch_size must be an integer, got {} of shape {}",
          to_string(size.dtype()), size.shape().to_string());
  }
  // A replica without examples may pass 0 when no replica has any.
  const int64_t least = losses.has_rank() && losses[0] > 0 ? 1 : 0;
  if (!size.is_symbolic() && size.to<int64_t>() < least) {
    raise(Code::InvalidArgument,
          "[compute_average_loss] global_batch_size must be at least {}, got {} for losses of "
          "shape {}",
          least, size.to<int64_t>(), losses.to_string());
  }
}

// The rows of the losses, as a traced function finds them in each run, times the replicas.
Tensor rows_of_all_replicas(const Tensor& losses) {
  require_replica("compute_average_loss", "call it inside run(), or set global_batch_size");
  const int64_t replicas = get_strategy().num_replicas_in_sync();
  return shape(losses)[0] * Tensor(replicas);
}

}  // namespace

Tensor compute_average_loss(const Tensor& per_example_loss, const AverageLossOptions& options,
                            Site site) {
  const cohort::internal::SiteScope there(site);
  const Shape shape = per_example_loss.shape();
  if (!is_floating(per_example_loss.dtype()) || (shape.has_rank() && shape.rank() == 0)) {
    raise(Code::InvalidArgument,
          "[compute_average_loss] expected floating losses with a dimension for the examples, got "
          "{} of shape {}; losses with Reduction::None have it",
          to_string(per_example_loss.dtype()), shape.to_string());
  }
  Tensor samples = options.global_batch_size;
  if (samples.defined()) {
    check_batch_size(samples, shape);
  } else {
    samples = rows_of_all_replicas(per_example_loss);
  }
  const Tensor total = sum(weighted(per_example_loss, options.sample_weight));
  // The sum over no examples is 0, and so is what they contribute.
  const Tensor divisor = maximum(samples, Tensor(int64_t{1}));
  return total / cast(divisor, total.dtype());
}

Tensor scale_regularization_loss(const Tensor& loss, Site site) {
  require_replica("scale_regularization_loss", "call it inside run()");
  const auto replicas = static_cast<double>(get_strategy().num_replicas_in_sync());
  return div(sum(loss, {}, KeepDims::No, site), Tensor(replicas), site);
}

Tensor scale_regularization_loss(const std::vector<Tensor>& losses, Site site) {
  if (losses.empty()) return zeros(Shape{}, kFloat32, site);
  Tensor total = sum(losses[0], {}, KeepDims::No, site);
  for (size_t i = 1; i < losses.size(); ++i) {
    total = add(total, sum(losses[i], {}, KeepDims::No, site), site);
  }
  return scale_regularization_loss(total, site);
}

}  // namespace cohort::nn
