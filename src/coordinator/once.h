#pragma once

#include "graph/graph_impl.h"

namespace cohort::internal {

// `update`, a node that changes a variable and is not yet part of the graph, as one that does so
// once for each call: when a call is repeated because its worker was lost, what it had changed
// before is not changed again. `claim` names the call (see kOnce), `number` the update among those
// of the call.
Node once(const Node& update, GraphImpl& graph, Endpoint claim, int64_t number);

}  // namespace cohort::internal
