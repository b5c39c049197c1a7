#pragma once

#include <vector>

#include "graph/function_graph.h"

namespace cohort::internal {

// Where each node of a function's body runs when it is called on the device `home`: where the code
// asked for, else at home; what uses a captured variable, where that is. Throws InvalidArgument for
// a device that this process does not have.
std::vector<DeviceName> function_devices(const GraphFunction& function, const DeviceName& home);

}  // namespace cohort::internal
