#include <fmt/ranges.h>

#include <limits>

#include "base/collective_purpose.h"
#include "base/raise.h"
#include "base/site_scope.h"
#include "cohort/ops.h"
#include "cohort/strategy_extended.h"
#include "distribute/contexts/distributed_values.h"
#include "ops/dispatch.h"

namespace cohort {
namespace {

using internal::raise;

// `value` where this thread is.
Tensor brought_here(const Tensor& value) {
  return value.device() == internal::value_device().full_name ? value : identity(value);
}

Destinations this_device() { return internal::value_device().full_name; }

Tensor reduce_locally(ReduceOp op, const Tensor& value, const Axes& axes) {
  switch (op) {
    case ReduceOp::Min:
      return min(value, axes);
    case ReduceOp::Max:
      return max(value, axes);
    case ReduceOp::Product:
      return prod(value, axes);
    case ReduceOp::Mean:
      return mean(value, axes);
    case ReduceOp::Sum:
      break;
  }
  return sum(value, axes);
}

// How many elements become one: int64, a symbol where a size is not known yet.
Tensor count_along(const Tensor& value, const Axes& axes) {
  Tensor count = cast(Tensor(1), kInt64);
  for (const int64_t axis : axes.axes) {
    const auto index = static_cast<int>(axis < 0 ? axis + value.rank() : axis);
    const int64_t size = value.shape()[index];
    count = count * (size >= 0 ? Tensor(size) : shape(value)[index]);
  }
  return count;
}

// Small integers would wrap around long before the sum of a batch.
Tensor widened(const Tensor& value) {
  return is_integer(value.dtype()) ? cast(value, kInt64) : value;
}

bool is_empty(const Tensor& value) {
  return !value.is_symbolic() && value.shape().num_elements() == 0;
}

[[noreturn]] void raise_empty(ReduceOp op) {
  raise(Code::InvalidArgument,
        "[reduce] {} needs at least one element, but all replicas' values are empty",
        to_string(op));
}

// The partial result of each replica along the axes, and the number of elements in it.
struct LocalParts {
  std::vector<Gradient> reduced = {};
  std::vector<Gradient> counts = {};
};

// The smallest and the largest number of a dtype; infinities if it has them.
Tensor bound_of(DType dtype, bool largest) {
  if (is_floating(dtype)) {
    const double infinity = std::numeric_limits<double>::infinity();
    return cast(Tensor(largest ? infinity : -infinity), dtype);
  }
  const auto bits = static_cast<int>(8 * size_of(dtype));
  if (dtype == kUInt8) return cast(Tensor(int64_t{largest ? 255 : 0}), dtype);
  const auto most = static_cast<int64_t>((uint64_t{1} << (bits - 1)) - 1);
  return cast(Tensor(largest ? most : -most - 1), dtype);
}

// The value that changes no minimum, or no maximum, in the shape that reducing `whole` would have.
Tensor neutral(ReduceOp op, const Tensor& whole, const Axes& axes) {
  const Tensor shape_only = sum(cast(zeros_like(whole), kFloat32), axes);
  return fill(shape_only.shape(), bound_of(whole.dtype(), op == ReduceOp::Min));
}

LocalParts reduce_components(ReduceOp op, const DistributedValue& value, const Axes& axes,
                             bool of_workers) {
  const bool of_some = op == ReduceOp::Min || op == ReduceOp::Max;
  LocalParts parts;
  for (const Gradient& component : value.components()) {
    const Tensor whole = component.dense();
    if (of_some && (value.size() > 1 || of_workers) && is_empty(whole)) continue;  // no extreme
    const DeviceScope there(whole.device());
    // Replicas may have different numbers of elements, so a mean is the sum of all elements divided
    // by their number.
    const bool is_mean = op == ReduceOp::Mean;
    parts.reduced.emplace_back(
        reduce_locally(is_mean ? ReduceOp::Sum : op, is_mean ? widened(whole) : whole, axes));
    if (is_mean) parts.counts.emplace_back(count_along(whole, axes));
  }
  if (of_workers && of_some && internal::thread_dispatch().builder == nullptr) {
    // Other workers may have elements; all workers find out whether one has.
    parts.counts.emplace_back(Tensor(static_cast<int64_t>(parts.reduced.size())));
    if (parts.reduced.empty()) {
      parts.reduced.emplace_back(neutral(op, value[0].dense(), axes));
    }
  } else if (parts.reduced.empty()) {
    raise_empty(op);
  }
  return parts;
}

// "reduce of {a, b} by Mean along axes [0]"
std::string describe_reduction(ReduceOp op, const ReduceAxes& axes, const std::string& structure) {
  std::string text = "reduce";
  if (!structure.empty()) text += " of " + structure;
  if (!axes.axes.empty()) {
    text += fmt::format(" by {} along axes [{}]", to_string(op), fmt::join(axes.axes, ", "));
  }
  return text;
}

// What a mean of that dtype is computed to.
DType mean_dtype(DType dtype) {
  if (!is_integer(dtype)) return is_floating(dtype) ? dtype : kFloat32;
  return size_of(dtype) <= 2 ? kFloat32 : kFloat64;
}

Tensor reduce_whole(Strategy& strategy, ReduceOp op, const DistributedValue& value) {
  return brought_here(strategy.extended().reduce_to(op, value, this_device()).value().dense());
}

Tensor reduce_along(Strategy& strategy, ReduceOp op, const DistributedValue& value,
                    const ReduceAxes& axes) {
  const Axes along(axes.axes);
  const bool of_workers =
      strategy.num_replicas_in_sync() > static_cast<int>(strategy.extended().num_local_replicas());
  if (internal::is_common(value) && !(of_workers && internal::is_of_this_worker(value))) {
    return reduce_locally(op, reduce_whole(strategy, op, value), along);
  }
  const LocalParts parts = reduce_components(op, value, along, of_workers);
  const auto combine = [&](ReduceOp between, const std::vector<Gradient>& all) {
    return reduce_whole(strategy, between, {DistributedValue::Kind::PerReplica, all});
  };
  const Tensor combined = combine(op == ReduceOp::Mean ? ReduceOp::Sum : op, parts.reduced);
  if (parts.counts.empty()) return combined;
  const Tensor count = combine(ReduceOp::Sum, parts.counts);
  if (op != ReduceOp::Mean) {
    if (count.to<int64_t>() == 0) raise_empty(op);
    return combined;
  }
  const Tensor quotient = div(combined, cast(count, combined.dtype()));
  return cast(quotient, mean_dtype(value[0].dense().dtype()));
}

}  // namespace

namespace internal {

Tensor reduce_value(Strategy& strategy, ReduceOp op, const DistributedValue& value,
                    const ReduceAxes& axes, const std::string& structure, Site site) {
  const SiteScope there(site);
  if (structure.empty() && axes.axes.empty()) {
    const CollectivePurpose purpose("reduce", site);
    return reduce_whole(strategy, op, value);
  }
  const CollectivePurpose purpose(describe_reduction(op, axes, structure), site);
  return axes.axes.empty() ? reduce_whole(strategy, op, value)
                           : reduce_along(strategy, op, value, axes);
}

Tensor gather_value(Strategy& strategy, const DistributedValue& value, int axis, Site site) {
  const SiteScope there(site);
  const CollectivePurpose purpose(fmt::format("gather along axis {}", axis), site);
  for (const Gradient& part : value.components()) {
    if (part.is_sparse()) check_gatherable("gather", {&part, 1}, axis);
  }
  return brought_here(strategy.extended().gather_to(value, this_device(), axis).value().dense());
}

}  // namespace internal
}  // namespace cohort
