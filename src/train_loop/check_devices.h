#pragma once

#include "cohort/graph.h"

namespace cohort::internal {

// Throws InvalidArgument naming a variable of the graph, of whatever kind, that asks for no device:
// every replica would have its own.
void require_devices_of_variables(const Graph& graph);

}  // namespace cohort::internal
