#pragma once

#include <optional>

#include "cohort/strategy.h"

namespace cohort::internal {

// Whether the value has no component for each replica: it is plain, or has equal copies.
bool is_common(const DistributedValue& value);

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

// Whether the tensor was made from a C++ number.
bool is_literal(const Tensor& value);

}  // namespace cohort::internal
