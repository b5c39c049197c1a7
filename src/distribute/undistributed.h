#pragma once

#include <optional>

#include "cohort/strategy.h"

namespace cohort::internal {

// Whether the value has no component for each replica: it is plain, or has equal copies. Its kind
// decides; how many components it has here, and whether they are equal, does not.
bool is_common(const DistributedValue& value);

// Whether it is a common value that no strategy keeps equal on all workers: another worker may have
// another one, and each counts once.
bool is_of_this_worker(const DistributedValue& value);

// The reduction over `replicas` replicas of a value that has no component for each of them: a plain
// one, the same for all, or one with equal copies. Its mean is itself; its sum is InvalidArgument,
// because nobody meant it, unless it is the C++ number 0. Returns nullopt when the value has
// components to reduce.
std::optional<DistributedValue> reduce_undistributed(ReduceOp op, const DistributedValue& value,
                                                     const Destinations& destinations,
                                                     CrossDeviceOps& copying, int replicas);

// `value` on every destination; a C++ number stays one.
DistributedValue broadcast_value(const Tensor& value, const Destinations& destinations,
                                 CrossDeviceOps& copying);

}  // namespace cohort::internal
