#pragma once

#include "graph/function_graph.h"
#include "runtime/executor.h"

namespace cohort::internal {

// The plan of a function's body; made at the first call and kept with the function.
const Plan& plan_of(const GraphFunction& function);

// The caller's arguments, and what the function captured.
std::vector<Tensor> with_captures(const GraphFunction& function, std::span<const Tensor> arguments);

// The part of a RunContext that runs functions: in the caller's thread and context.
class FunctionCaller : public RunContext {
 public:
  std::vector<Tensor> call(const GraphFunction& function, std::span<const Tensor> inputs) override;
};

// The context of one call of a function outside of sessions: no other part to exchange tensors
// with, and named state only where there is a table.
class CallContext : public FunctionCaller {
 public:
  CallContext(ResourceTable* resources, Cancellation& cancellation)
      : resources_(resources), cancellation_(cancellation) {}

  ResourceTable& resources() override;
  Cancellation& cancellation() override { return cancellation_; }
  EdgeTable& edges() override;

  // On the caller's arguments; the captured tensors are added.
  std::vector<Tensor> call_with_captures(const GraphFunction& function,
                                         std::span<const Tensor> arguments);

 private:
  ResourceTable* const resources_;
  Cancellation& cancellation_;
};

}  // namespace cohort::internal
