#pragma once

#include <string_view>
#include <vector>

#include "runtime/executor.h"

namespace cohort::internal {

// The nodes that took 20 microseconds or longer become part of the process's timeline, in the row
// of that device. Shorter ones would cost a part of their time to keep.
void add_nodes_to_timeline(const std::vector<StepTime>& nodes, std::string_view device);

}  // namespace cohort::internal
