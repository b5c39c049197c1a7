#pragma once

#include "ops/op.h"

// Dtypes and shapes as one list of integers, which is what an attribute can hold: for each tensor
// the number of its dtype, its rank (-1: unknown) and its sizes.
namespace cohort::internal {

std::vector<int64_t> pack_specs(std::span<const Spec> specs);

// Throws InvalidArgument naming `op` for a list that pack_specs does not make.
Specs unpack_specs(std::string_view op, std::span<const int64_t> packed);

// "(float32 (2, 3), int64 ())"
std::string to_string(std::span<const Spec> specs);

}  // namespace cohort::internal
