#pragma once

#include "graph/function_graph.h"

namespace cohort::internal {

// Runs a function whose captures are among `inputs`: by the plan of the run that the caller is part
// of, or op by op when there is none.
std::vector<Tensor> call_function(const GraphFunction& function, std::span<const Tensor> inputs,
                                  RunContext* run);

// `function` with its captures as ordinary arguments behind its own, for use inside of a node whose
// inputs they are.
std::shared_ptr<const GraphFunction> closed(const GraphFunction& function);

// Throws InvalidArgument naming `op` unless there is one input of the right dtype per argument.
void require_arguments(std::string_view op, const GraphFunction& function,
                       std::span<const Tensor> inputs);

// What an op that calls functions returns. A tape tells tensors apart by identity: one that is an
// input or a variable's value as well would get its gradient twice.
std::vector<Tensor> own_results(std::vector<Tensor> results);

// Dtype and shape of what the function returns.
Specs result_specs(const GraphFunction& function);

// Dtype and shape of what the gradient of each argument is: those of the argument, or of the
// variable whose handle it is, where the function reads that. Those that are not floating have
// none.
Specs gradient_specs(const GraphFunction& function);

// No gradient, of that dtype and shape, for `argument`.
Tensor zero_gradient(const Spec& spec, const Tensor& argument);

// A function of the closed `function`'s arguments and d(result) for its floating results that gives
// the gradient of each argument that has one. It computes the function again.
std::shared_ptr<const GraphFunction> gradient_of(const GraphFunction& function);

// Positions of the floating ones.
std::vector<size_t> floating(std::span<const Spec> specs);
Specs argument_specs(const GraphFunction& function);

}  // namespace cohort::internal
