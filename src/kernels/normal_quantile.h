#pragma once

#include <cstdint>

namespace cohort::internal {

// The x below which a standard normal variable lies with probability p, 0 < p < 1. Exact to about
// 1e-16 of its size.
double normal_quantile(double p);
// Replaces each p by that, to the same bits, and faster.
void normal_quantiles(double* p, int64_t count);

}  // namespace cohort::internal
