#pragma once

#include <optional>
#include <vector>

#include "cohort/gradient.h"
#include "graph/function_graph.h"

// Gradients of functions that nodes of a graph call. They compute the functions again.
namespace cohort::internal {

// Returns a function that computes the gradients of the closed `function`. It takes the arguments
// and d(result) for each floating result, and returns the gradient of each argument that has one.
FunctionPtr gradient_of(const GraphFunction& function);

// Dtype and shape of the gradient of each argument: those of the argument, or of the variable if
// the argument is the handle of a variable that the function reads. An argument that is not
// floating has none.
Specs gradient_specs(const GraphFunction& function);

// Positions of the floating specs.
std::vector<size_t> floating(std::span<const Spec> specs);

// Returns zeros of that dtype and shape, for an `argument` without a gradient.
Tensor zero_gradient(const Spec& spec, const Tensor& argument);

// How a function that a node calls reads a variable.
struct InnerRead {
  Tensor value;  // a symbol of the body
  bool trainable;
};
// The first read of the variable whose handle is the node's input, in the branches of a cond or the
// body of a loop. The condition of a loop has no gradient and does not count.
std::optional<InnerRead> read_of_input(const Node& node, size_t input);

// Returns the closed function without its changes of variables and iterators. Its gradient computes
// the function again, after those changes were made. Throws Unimplemented if the results depend on
// a change, because they would differ.
FunctionPtr without_effects(const GraphFunction& function);
// Throws the Unimplemented of without_effects().
[[noreturn]] void refuse_to_compute_again(std::string_view function);

}  // namespace cohort::internal
