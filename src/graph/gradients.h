#pragma once

#include <optional>
#include <set>
#include <vector>

#include "cohort/gradient.h"
#include "graph/function_graph.h"

// Gradients of functions that nodes of a graph call, by computing the functions again.
namespace cohort::internal {

// A function of the closed `function`'s arguments and d(result) for its floating results that gives
// the gradient of each argument that has one. It computes the function again.
std::shared_ptr<const GraphFunction> gradient_of(const GraphFunction& function);

// Dtype and shape of the gradient of each argument: those of the argument, or of the variable whose
// handle it is, where the function reads the variable. Arguments that are not floating have none.
Specs gradient_specs(const GraphFunction& function);

// Positions of the floating specs.
std::vector<size_t> floating(std::span<const Spec> specs);

// Zeros of that dtype and shape, for an `argument` without gradient.
Tensor zero_gradient(const Spec& spec, const Tensor& argument);

// How a function that a node calls reads a variable.
struct InnerRead {
  Tensor value;  // a symbol of the body that reads it
  bool trainable;
};
// The first read of the variable whose handle is the node's input, in the branches of a cond or the
// body of a loop. The condition of a loop has no gradient and does not count.
std::optional<InnerRead> read_of_input(const Node& node, size_t input);

// The closed function without its changes of variables and iterators, for code that computes it
// again in order to differentiate it: the changes have been made already. Throws Unimplemented
// where the results depend on such a change, because they would differ.
std::shared_ptr<const GraphFunction> without_effects(const GraphFunction& function);
// Throws the Unimplemented of the function above.
[[noreturn]] void refuse_to_compute_again(std::string_view function);

// The inputs of the node that are handles of state that it changes, by itself or in the functions
// that it calls. The node need not be in the graph yet.
std::set<NodeOutput> changed_by(const GraphImpl& graph, const Node& node);
// Which arguments are handles of state that the function changes.
std::set<size_t> changed_arguments(const GraphFunction& function);

}  // namespace cohort::internal
