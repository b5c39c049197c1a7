#pragma once

namespace cohort::internal {

// The x below which a standard normal variable lies with probability p, 0 < p < 1. Exact to about
// 1e-16 of its size.
double normal_quantile(double p);

}  // namespace cohort::internal
