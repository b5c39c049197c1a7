#pragma once

#include <span>

#include "cohort/events.pb.h"

namespace cohort::internal {

// How finite values are distributed, in buckets that grow by a tenth from 1e-12 on, to either side
// of 0: as TensorBoard's own writers cut them.
events::Histogram make_histogram(std::span<const double> values);

}  // namespace cohort::internal
