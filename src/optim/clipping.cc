#include "cohort/ops.h"
#include "ops/variable_ops.h"
#include "optim/optimizer.h"

namespace cohort::optim {
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

}  // namespace

Gradients clip_by_value(const Gradients& gradients, double value) {
  internal::require(value > 0, "ClipByValue", "the limit must be positive", value);
  return each_changed(gradients, [&](const Gradient& gradient) {
    return changed(gradient, [&](const Tensor& x) { return clip(x, -value, value); });
  });
}

Gradients clip_by_norm(const Gradients& gradients, double norm) {
  internal::require(norm > 0, "ClipByNorm", "the limit must be positive", norm);
  return each_changed(gradients, [&](const Gradient& gradient) {
    if (!gradient.defined()) return gradient;
    const Tensor length = sqrt(squared_norm(gradient));
    return changed(gradient, [&](const Tensor& x) { return scaled(x, length, norm); });
  });
}

Tensor global_norm(const Gradients& gradients) {
  Tensor total(0.0);
  for (const Gradient& gradient : gradients) {
    if (gradient.defined()) total = total + squared_norm(gradient);
  }
  return sqrt(total);
}

Gradients clip_by_global_norm(const Gradients& gradients, double norm) {
  internal::require(norm > 0, "ClipByGlobalNorm", "the limit must be positive", norm);
  const Tensor length = global_norm(gradients);
  return each_changed(gradients, [&](const Gradient& gradient) {
    return changed(gradient, [&](const Tensor& x) { return scaled(x, length, norm); });
  });
}

Gradients internal::clipped(const Gradients& gradients, const Clipping& clipping) {
  Gradients result = gradients;
  if (clipping.value != 0) result = clip_by_value(result, clipping.value);
  if (clipping.norm != 0) result = clip_by_norm(result, clipping.norm);
  if (clipping.global_norm != 0) result = clip_by_global_norm(result, clipping.global_norm);
  return result;
}

}  // namespace cohort::optim
