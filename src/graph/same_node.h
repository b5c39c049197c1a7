#pragma once

#include "graph/graph_impl.h"

// Whether nodes compute the same thing: same op, device, inputs, order and attributes. Constants of
// a few elements are compared by value, bit for bit, larger ones by identity.
namespace cohort::internal {

bool same_node(const Node& a, const Node& b);
// Equal for nodes that are the same.
size_t hash_node(const Node& node);

}  // namespace cohort::internal
