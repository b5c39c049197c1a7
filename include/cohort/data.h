#pragma once

#include <string>

#include "cohort/tensor.h"

namespace cohort::data {

// The whole of a file of the MNIST family (idx), plain or compressed with gzip or zstd. Throws
// NotFound, or DataLoss saying what is wrong with the file.
Tensor read_idx(const std::string& path);

}  // namespace cohort::data
