#include "cohort/function.h"

#include <map>
#include <mutex>

#include "base/raise.h"
#include "graph/serialize_graph.h"
#include "graph/tracing.h"
#include "ops/variable_cell.h"
#include "runtime/graph_run.h"
#include "runtime/traces.h"

namespace cohort::internal {
namespace {

// Whether a tape may want to see what happens inside: it watches an argument, or would watch a
// variable that the function reads.
bool is_recorded(const GraphFunction& function, std::span<const Tensor> arguments) {
  for (Recorder* recorder = thread_dispatch().recorder; recorder; recorder = recorder->outer) {
    if (!function.captured.empty() || recorder->wants(arguments)) return true;
  }
  return false;
}

std::vector<Tensor> run_trace(const Trace& trace, const std::vector<Tensor>& arguments) {
  const GraphFunction& function = trace.function();
  const bool is_building = thread_dispatch().builder != nullptr;
  std::vector<std::shared_ptr<void>> turns;
  if (!is_building) {
    for (const auto& order : trace.settings().orders()) {
      turns.push_back(order->enter(trace.may_wait()));
    }
  }
  if (is_building || is_recorded(function, arguments)) {
    return call_inline(function, arguments, function.calls()++);
  }
  // A replica runs everything on its own thread: another thread cannot meet the other replicas.
  const CompiledRun* parts = trace_context().in_replica ? nullptr : trace.parts();
  if (parts != nullptr) {
    return run_parts(
        *parts, with_captures(function, arguments),
        {.cancellation = std::make_shared<Cancellation>(), .numbered_runs = function.calls()});
  }
  Cancellation cancellation;
  CallContext context(nullptr, cancellation, function.calls());
  return context.call(function, with_captures(function, arguments));
}

// Tells apart the variables that functions were called with. An address is not enough: a variable
// may be made where an ended one was, and must not get the traces of that one.
class VariableNumbers {
 public:
  uint64_t of(const std::shared_ptr<VariableImpl>& variable) {
    const std::lock_guard lock(mutex_);
    const auto known = numbers_.find(variable);
    if (known != numbers_.end()) return known->second;
    std::erase_if(numbers_, [](const auto& entry) { return entry.first.expired(); });
    return numbers_[variable] = next_++;
  }

 private:
  std::mutex mutex_;
  uint64_t next_ = 0;
  std::map<std::weak_ptr<const VariableImpl>, uint64_t, std::owner_less<>> numbers_;
};

}  // namespace

void describe_constant(const Variable& value, std::string& text) {
  static VariableNumbers numbers;
  describe_constant(numbers.of(VariableAccess::impl(value)), text);
}

FunctionCore::FunctionCore(std::string name)
    : traces_(std::make_shared<TracedFunction>(std::move(name))) {}

TracedResults FunctionCore::call(const Flat& arguments, const TracedBody& body) const {
  // Replicas that build one graph meet in that graph. A trace of one replica cannot express this.
  if (thread_dispatch().builder != nullptr && trace_context().in_replica) {
    return body(arguments.tensors);
  }
  const std::shared_ptr<const Trace> trace = traces_->trace_for(arguments, body);
  if (trace == nullptr) return body(arguments.tensors);
  return {run_trace(*trace, arguments.tensors), trace->structure()};
}

std::string FunctionCore::serialize(const Flat& arguments, const TracedBody& body) const {
  const std::shared_ptr<const Trace> trace = traces_->trace_for(arguments, body);
  if (trace != nullptr) return serialize_function(trace->function());
  raise(Code::FailedPrecondition,
        "[Function] cannot be sent: it merges replicas in C++ code, which only this process has");
}

std::shared_ptr<const Trace> FunctionCore::trace(const Flat& arguments,
                                                 const TracedBody& body) const {
  return traces_->trace_for(arguments, body);
}

size_t FunctionCore::num_traces() const { return traces_->size(); }

}  // namespace cohort::internal
