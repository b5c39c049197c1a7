#pragma once

#include <optional>

#include "graph/function_graph.h"

namespace cohort::internal {

// How a function that a node calls reads a variable.
struct InnerRead {
  Tensor value;  // a symbol of the body that reads it
  bool trainable;
};

// The first read, in the function or in those that it calls, of the variable whose handle is
// argument number `argument`.
std::optional<InnerRead> read_of_argument(const GraphFunction& function, size_t argument);

// The same for the functions that a branch or the body of a loop are, by the node's input. The
// condition of a loop has no gradient, and does not count.
std::optional<InnerRead> read_of_input(const Node& node, size_t input);

}  // namespace cohort::internal
