#include "runtime/call_plan.h"

#include "base/raise.h"
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

ResourceTable& CallContext::resources() {
  if (resources_ == nullptr) {
    raise(Code::FailedPrecondition, "[Function] named state needs a session");
  }
  return *resources_;
}

EdgeTable& CallContext::edges() { raise(Code::Internal, "[Function] a call has one part"); }

std::vector<Tensor> with_captures(const GraphFunction& function,
                                  std::span<const Tensor> arguments) {
  std::vector<Tensor> all(arguments.begin(), arguments.end());
  all.insert(all.end(), function.captured.begin(), function.captured.end());
  return all;
}

std::vector<Tensor> CallContext::call_with_captures(const GraphFunction& function,
                                                    std::span<const Tensor> arguments) {
  return call(function, with_captures(function, arguments));
}

}  // namespace cohort::internal
