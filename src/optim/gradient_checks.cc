// What an optimizer does with gradients before its update: checks and clipping.

#include "base/raise.h"
#include "cohort/ops.h"
#include "graph/scopes.h"
#include "ops/variable_ops.h"
#include "optim/optimizer.h"

namespace cohort::optim {
namespace internal {

using cohort::internal::raise;

void require(bool holds, std::string_view optimizer, std::string_view what, double value) {
  if (!holds) raise(Code::InvalidArgument, "[{}] {}, got {}", optimizer, what, value);
}

namespace {

// Each row needs one index, and the index must be a row of the variable.
void check_rows(const Variable& variable, const IndexedSlices& slices) {
  const Shape values = slices.values.shape();
  const Shape indices = slices.indices.shape();
  Shape expected = slices.dense_shape;
  if (expected.rank() > 0 && indices.rank() == 1) expected = expected.with(0, indices[0]);
  if (indices.rank() != 1 || !values.is_compatible_with(expected)) {
    raise(Code::InvalidArgument,
          "[Optimizer] the gradient of variable '{}' has row values of shape {} and indices of "
          "shape {}, which do not make up rows of shape {}",
          variable.name(), values.to_string(), indices.to_string(), slices.dense_shape.to_string());
  }
  if (slices.indices.is_symbolic()) return;
  for (const int64_t row : slices.indices.to_vector<int64_t>()) {
    if (row >= 0 && row < slices.dense_shape[0]) continue;
    raise(Code::InvalidArgument,
          "[Optimizer] the gradient of variable '{}' names row {}, but the variable has {} rows",
          variable.name(), row, slices.dense_shape[0]);
  }
}

void check_pair(const Variable& variable, const Gradient& gradient) {
  if (!is_floating(variable.dtype())) {
    raise(Code::InvalidArgument, "[Optimizer] variable '{}' is {}; only floating variables train",
          variable.name(), to_string(variable.dtype()));
  }
  const Shape shape =
      gradient.is_sparse() ? gradient.slices().dense_shape : gradient.dense().shape();
  if (!shape.is_compatible_with(variable.shape())) {
    raise(Code::InvalidArgument, "[Optimizer] variable '{}' has shape {}, but its gradient has {}",
          variable.name(), variable.shape().to_string(), shape.to_string());
  }
  const DType dtype =
      gradient.is_sparse() ? gradient.slices().values.dtype() : gradient.dense().dtype();
  if (!is_floating(dtype)) {
    raise(Code::InvalidArgument, "[Optimizer] the gradient of variable '{}' is {}, not floating",
          variable.name(), to_string(dtype));
  }
  if (gradient.is_sparse()) check_rows(variable, gradient.slices());
}

void check_limit(std::optional<double> limit, std::string_view name) {
  if (!limit || *limit > 0) return;
  raise(Code::InvalidArgument,
        "[Optimizer] the limit of clipping by {} must be positive, got {}; leave it empty for no "
        "limit",
        name, *limit);
}

}  // namespace

Clipping checked(const Clipping& clipping) {
  check_limit(clipping.value, "value");
  check_limit(clipping.norm, "norm");
  check_limit(clipping.global_norm, "global norm");
  return clipping;
}

void check_all(const Gradients& gradients, const std::vector<Variable>& variables) {
  if (gradients.size() != variables.size()) {
    raise(Code::InvalidArgument,
          "[Optimizer] needs one gradient per variable, got {} gradients for {} variables",
          gradients.size(), variables.size());
  }
  for (size_t i = 0; i < variables.size(); ++i) {
    if (gradients[i].defined()) check_pair(variables[i], gradients[i]);
  }
}

}  // namespace internal

namespace {

// The gradient with `change` applied to its elements. Rows of a sparse gradient are merged first,
// so that none comes twice.
template <typename Change>
Gradient changed(const Gradient& gradient, const Change& change) {
  if (!gradient.defined()) return gradient;
  if (!gradient.is_sparse()) return change(gradient.dense());
  const IndexedSlices slices = cohort::internal::merge_rows(gradient.slices());
  return IndexedSlices{change(slices.values), slices.indices, slices.dense_shape};
}

Tensor squared_norm(const Gradient& gradient) {
  const Tensor values = gradient.is_sparse()
                            ? cohort::internal::merge_rows(gradient.slices()).values
                            : gradient.dense();
  return sum(square(cast(values, kFloat64)));
}

Tensor scaled(const Tensor& values, const Tensor& norm, double limit) {
  // Only a norm above the limit changes the values; a norm of 0 or NaN leaves them as they are.
  const Tensor factor = where(norm > limit, limit / norm, ones_like(norm));
  return values * cast(factor, values.dtype());
}

template <typename Change>
Gradients each_changed(const Gradients& gradients, const Change& change) {
  Gradients results;
  for (const Gradient& gradient : gradients) results.push_back(change(gradient));
  return results;
}

using cohort::internal::SiteScope;

}  // namespace

Gradients clip_by_value(const Gradients& gradients, double value, Site site) {
  const SiteScope there(site);
  internal::require(value > 0, "ClipByValue", "the limit must be positive", value);
  return each_changed(gradients, [&](const Gradient& gradient) {
    return changed(gradient, [&](const Tensor& x) { return clip(x, -value, value); });
  });
}

Gradients clip_by_norm(const Gradients& gradients, double norm, Site site) {
  const SiteScope there(site);
  internal::require(norm > 0, "ClipByNorm", "the limit must be positive", norm);
  return each_changed(gradients, [&](const Gradient& gradient) {
    if (!gradient.defined()) return gradient;
    const Tensor length = sqrt(squared_norm(gradient));
    return changed(gradient, [&](const Tensor& x) { return scaled(x, length, norm); });
  });
}

Tensor global_norm(const Gradients& gradients, Site site) {
  const SiteScope there(site);
  Tensor total(0.0);
  for (const Gradient& gradient : gradients) {
    if (gradient.defined()) total = total + squared_norm(gradient);
  }
  return sqrt(total);
}

Gradients clip_by_global_norm(const Gradients& gradients, double norm, Site site) {
  const SiteScope there(site);
  internal::require(norm > 0, "ClipByGlobalNorm", "the limit must be positive", norm);
  const Tensor length = global_norm(gradients);
  return each_changed(gradients, [&](const Gradient& gradient) {
    return changed(gradient, [&](const Tensor& x) { return scaled(x, length, norm); });
  });
}

Gradients internal::clipped(const Gradients& gradients, const Clipping& clipping) {
  Gradients result = gradients;
  if (clipping.value) result = clip_by_value(result, *clipping.value);
  if (clipping.norm) result = clip_by_norm(result, *clipping.norm);
  if (clipping.global_norm) result = clip_by_global_norm(result, *clipping.global_norm);
  return result;
}

}  // namespace cohort::optim
