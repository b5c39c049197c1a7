#include "base/raise.h"
#include "cohort/ops.h"
#include "cohort/strategy.h"
#include "distribute/context.h"

namespace cohort {
namespace {

using internal::raise;

// `value` where this thread is.
Tensor here(const Tensor& value) {
  return value.device() == internal::value_device().full_name ? value : identity(value);
}

Tensor reduce_locally(ReduceOp op, const Tensor& value, const Axes& axes) {
  switch (op) {
    case ReduceOp::Min:
      return min(value, axes);
    case ReduceOp::Max:
      return max(value, axes);
    case ReduceOp::Product:
      return prod(value, axes);
    default:
      return sum(value, axes);
  }
}

// How many elements of `value` become one.
int64_t count_along(const Tensor& value, const Axes& axes) {
  int64_t count = 1;
  for (const int64_t axis : axes.axes) {
    count *= value.shape()[static_cast<int>(axis < 0 ? axis + value.rank() : axis)];
  }
  return count;
}

}  // namespace

Tensor Strategy::reduce_value(ReduceOp op, const DistributedValue& value, const ReduceAxes& axes) {
  if (!axes.axes.empty()) return reduce_along(op, value, axes);
  const Destinations where(internal::value_device().full_name);
  return here(extended_->reduce_to(op, value, where).value().dense());
}

Tensor Strategy::reduce_along(ReduceOp op, const DistributedValue& value, const ReduceAxes& axes) {
  const Axes along(axes.axes);
  std::vector<Gradient> parts;
  std::vector<Gradient> counts;
  for (const Gradient& component : value.components()) {
    const Tensor whole = component.dense();
    const DeviceScope there(whole.device());
    parts.emplace_back(reduce_locally(op, whole, along));
    counts.emplace_back(Tensor::from(std::vector<int64_t>{count_along(whole, along)}, Shape{}));
  }
  const ReduceOp between = op == ReduceOp::Mean ? ReduceOp::Sum : op;
  const auto combine = [&](std::vector<Gradient> all) {
    return reduce_value(between, DistributedValue(value.kind(), std::move(all)), {});
  };
  const Tensor combined = combine(std::move(parts));
  if (op != ReduceOp::Mean) return combined;
  return div(combined, cast(combine(std::move(counts)), combined.dtype()));
}

Tensor Strategy::gather_value(const DistributedValue& value, int axis) {
  const Destinations where(internal::value_device().full_name);
  return here(extended_->gather_to(value, where, axis).value().dense());
}

}  // namespace cohort
