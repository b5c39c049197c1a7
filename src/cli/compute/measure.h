#pragma once

namespace cohort::cli {

// Prints how fast a matrix product is, in billions of operations per second; for `cohort doctor`.
void measure_product();

}  // namespace cohort::cli
