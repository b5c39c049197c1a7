#pragma once

#include "cohort/events.pb.h"
#include "cohort/tensor.h"

namespace cohort::internal {

// A picture of one of the forms that SummaryWriter::add_image takes. Throws InvalidArgument.
events::Summary::Image encode_image(const Tensor& image);

}  // namespace cohort::internal
