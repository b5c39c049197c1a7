#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "cohort/strategy_extended.h"
#include "cohort/values.h"

namespace cohort::internal {

// Whether the value is one for all replicas: a plain value, or equal copies. The kind of the value
// decides, not how many components it has here or whether these are equal.
bool is_common(const DistributedValue& value);

// Whether the value is common, but no strategy keeps it equal on all workers. Then another worker
// may have another value, and the value of each worker counts once.
bool is_of_this_worker(const DistributedValue& value);

// The reduction of a common value over `replicas` replicas. The mean is the value itself. A sum
// throws InvalidArgument, because it is a mistake, except for the C++ number 0. Returns nullopt
// when the value has components to reduce.
std::optional<DistributedValue> reduce_undistributed(ReduceOp op, const DistributedValue& value,
                                                     const Destinations& destinations,
                                                     CrossDeviceOps& copying, int replicas);

// `value` on every destination; a C++ number stays one.
DistributedValue broadcast_value(const Tensor& value, const Destinations& destinations,
                                 CrossDeviceOps& copying);

// The next two check values that are about to be combined. Each throws an Error that begins with
// "[what]" and names the components by replica.

// The components must be numbers of one dtype and one shape. Rows have the shape of the tensor that
// they are rows of.
void check_reducible(std::string_view what, std::span<const Gradient> components);

// The components must be dense values of one dtype. They must have the axis, and equal sizes beside
// it.
void check_gatherable(std::string_view what, std::span<const Gradient> components, int axis);

}  // namespace cohort::internal
