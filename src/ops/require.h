#pragma once

#include <string>

#include "cohort/tensor.h"

namespace cohort::internal {

// `x`; throws InvalidArgument with `text` unless `holds`, a boolean scalar, is true. In a graph
// that is found out when it runs.
Tensor require_true(const Tensor& x, const Tensor& holds, const std::string& text);

}  // namespace cohort::internal
