#pragma once

#include "graph/function_graph.h"
#include "runtime/executor.h"

namespace cohort::internal {

// The plan of a function's body; made at the first call and kept with the function.
const Plan& plan_of(const GraphFunction& function);

// The part of a RunContext that runs functions: in the caller's thread and context.
class FunctionCaller : public RunContext {
 public:
  std::vector<Tensor> call(const GraphFunction& function, std::span<const Tensor> inputs) override;
};

}  // namespace cohort::internal
