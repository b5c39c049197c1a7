#pragma once

#include "cohort/data.h"

namespace cohort::data::internal {

inline constexpr int64_t kUnknownBatchSize = -1;

// The size of a dataset's batches as far as its description tells, else kUnknownBatchSize: the
// first dimension that all tensors of an element are known to share, or the size of the batch stage
// that the elements come from whole.
int64_t batch_size_of(const Dataset& dataset);

// Throws InvalidArgument, "[operation] ...", when the elements are known to be no batches, because
// one of their tensors is a scalar.
void check_batched(std::string_view operation, const Dataset& dataset);

}  // namespace cohort::data::internal
