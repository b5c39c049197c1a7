#pragma once

#include "ops/max_pool.h"

namespace cohort::internal {

// Whether max_pool_pairs() can be used here: windows of 2 x 2, side by side, at least four in a
// row, on a machine with the instructions for it.
bool can_pool_pairs(const PoolPlan& plan);

// max_pool() for these.
void max_pool_pairs(const PoolPlan& plan, int64_t planes, const float* x, float* values,
                    int64_t* indices);

}  // namespace cohort::internal
