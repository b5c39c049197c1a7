// Every strategy here runs a replica on one logical device.

#include <fmt/ranges.h>

#include "base/raise.h"
#include "cohort/strategy.h"

namespace cohort {
namespace {

using internal::raise;

void check_parts(const Shape& shape, const std::vector<int64_t>& parts) {
  if (shape.has_rank() && static_cast<size_t>(shape.rank()) != parts.size()) {
    raise(Code::InvalidArgument,
          "[split_to_logical_devices] shape {} needs a number of parts for each dimension, got {}",
          shape.to_string(), parts.size());
  }
  for (size_t axis = 0; axis < parts.size(); ++axis) {
    const int64_t size = shape.has_rank() ? shape[static_cast<int>(axis)] : Shape::kUnknownDim;
    if (parts[axis] >= 1 && (size < 0 || size % parts[axis] == 0)) continue;
    raise(Code::InvalidArgument,
          "[split_to_logical_devices] dimension {} of shape {} cannot be cut into {} equal parts",
          axis, shape.to_string(), parts[axis]);
  }
}

}  // namespace

Tensor Strategy::assign_to_logical_device(const Tensor& value, int logical_device) const {
  if (logical_device == 0) return value;
  raise(Code::InvalidArgument,
        "[assign_to_logical_device] each replica of {} has one logical device, 0; there is no {}",
        extended_->name(), logical_device);
}

Tensor Strategy::split_to_logical_devices(const Tensor& value,
                                          const std::vector<int64_t>& parts) const {
  check_parts(value.shape(), parts);
  for (const int64_t count : parts) {
    if (count == 1) continue;
    raise(
        Code::InvalidArgument,
        "[split_to_logical_devices] each replica of {} has one logical device, but parts [{}] are "
        "for several",
        extended_->name(), fmt::join(parts, ", "));
  }
  return value;
}

}  // namespace cohort
