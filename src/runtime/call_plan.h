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
  // `numbered_calls`: of the function; see RunNumber.
  CallContext(ResourceTable* resources, Cancellation& cancellation,
              std::atomic<uint64_t>& numbered_calls)
      : resources_(resources), cancellation_(cancellation), number_(numbered_calls) {}

  ResourceTable& resources() override;
  Cancellation& cancellation() override { return cancellation_; }
  EdgeTable& edges() override;
  uint64_t run_number() override { return number_.get(); }

  // On the caller's arguments; the captured tensors are added.
  std::vector<Tensor> call_with_captures(const GraphFunction& function,
                                         std::span<const Tensor> arguments);

 private:
  ResourceTable* const resources_;
  Cancellation& cancellation_;
  RunNumber number_;
};

}  // namespace cohort::internal
