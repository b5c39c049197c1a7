#include "runtime/call_plan.h"

#include "graph/fold.h"

namespace cohort::internal {

const Plan& plan_of(const GraphFunction& function) {
  const auto compiled = function.compiled([&] {
    const FoldedGraph folded = fold(
        function.body,
        {.feeds = function.arguments, .fetches = function.results, .targets = function.effects});
    return compile(folded.graph, folded.request, StepOrder::EffectsEarly);
  });
  return *static_cast<const Plan*>(compiled.get());
}

std::vector<Tensor> FunctionCaller::call(const GraphFunction& function,
                                         std::span<const Tensor> inputs) {
  return run_plan(plan_of(function), inputs, *this);
}

}  // namespace cohort::internal
