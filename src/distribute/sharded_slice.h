#pragma once

#include "distribute/sharded_variable.h"

namespace cohort::internal {

// slice() of all rows, of which only the shards that are needed are read.
Tensor slice_shards(const ShardedVariableImpl& variable, const std::vector<Range>& ranges);
// One row; negative ones count from the end. Throws InvalidArgument.
Tensor row_of_shards(const ShardedVariableImpl& variable, int64_t row);

// Throws InvalidArgument unless it is a vector of integers.
void require_row_vector(const Tensor& rows, std::string_view what, const std::string& name);

}  // namespace cohort::internal
