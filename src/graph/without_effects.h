#pragma once

#include <set>

#include "graph/function_graph.h"

namespace cohort::internal {

// The closed function for code that computes it again in order to differentiate it: its changes of
// variables and iterators are left out, since they have been made. Throws Unimplemented where that
// would give other results: they depend on what the function changes.
std::shared_ptr<const GraphFunction> without_effects(const GraphFunction& function);

// The inputs of the node, which is or could be one of the graph, that are handles of what it
// changes: by itself, or in the functions that it calls.
std::set<NodeOutput> changed_by(const GraphImpl& graph, const Node& node);
// Which arguments are handles of state that the function changes.
std::set<size_t> changed_arguments(const GraphFunction& function);

// Throws that Unimplemented.
[[noreturn]] void refuse_to_compute_again(std::string_view function);

}  // namespace cohort::internal
