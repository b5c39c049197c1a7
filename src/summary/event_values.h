#pragma once

#include <span>

#include "cohort/events.pb.h"
#include "cohort/tensor.h"

// The values of summary events that need computing.
namespace cohort::internal {

// How finite values are distributed, in buckets that grow by a tenth from 1e-12 on, to either side
// of 0, as TensorBoard's own writers cut them.
events::Histogram make_histogram(std::span<const double> values);

// A picture of one of the forms that SummaryWriter::add_image takes. Throws InvalidArgument.
events::Summary::Image encode_image(const Tensor& image);

}  // namespace cohort::internal
