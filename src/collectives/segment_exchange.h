#pragma once

#include "collectives/exchange.h"
#include "collectives/shared_segment.h"

namespace cohort::internal {

// One segment, zeroed, that the lowest member makes and the others map; null on everybody when one
// of them can not, which is logged. Nobody else can open it afterwards.
std::shared_ptr<SharedSegment> share_segment(Exchange& exchange, size_t bytes);

}  // namespace cohort::internal
