#include "runtime/executor.h"

#include <fmt/format.h>

#include "base/raise.h"
#include "ops/dispatch.h"
#include "ops/execute.h"

namespace cohort::internal {
namespace {

// The error of a kernel, told as the node's.
[[noreturn]] void raise_for(const Node& node, const Status& status) {
  Status told = status;
  std::string where = fmt::format("node '{}'", node.name);
  if (!node.device.to_string().empty()) where += " on " + node.device.to_string();
  if (node.site.line > 0) where += fmt::format(", made at {}:{}", node.site.file, node.site.line);
  told.message += " (" + where + ")";
  throw Error(std::move(told));
}

int64_t bytes_of(std::span<const Tensor> tensors) {
  int64_t bytes = 0;
  for (const Tensor& tensor : tensors) {
    if (tensor.defined() && tensor.dtype() != kResource) {
      bytes += tensor.size() * size_of(tensor.dtype());
    }
  }
  return bytes;
}

// Moves or copies a step's inputs out of their slots.
void take_inputs(const Plan& plan, const Plan::Step& step, std::vector<Tensor>& slots,
                 std::vector<Tensor>& inputs) {
  inputs.clear();
  const int* sources = plan.input_slots.data() + step.first_input;
  for (int i = 0; i < step.num_inputs; ++i) {
    Tensor& slot = slots[static_cast<size_t>(sources[i])];
    if (i < 32 && ((step.last_uses >> i) & 1) != 0) {
      inputs.push_back(std::move(slot));
    } else {
      inputs.push_back(slot);
    }
  }
}

}  // namespace

std::vector<Tensor> run_plan(const Plan& plan, std::span<const Tensor> feeds, RunContext& context,
                             std::vector<StepTime>* times) {
  std::vector<Tensor> slots(static_cast<size_t>(plan.num_slots));
  for (size_t i = 0; i < feeds.size(); ++i)
    slots[static_cast<size_t>(plan.feed_slots[i])] = feeds[i];
  std::vector<Tensor> inputs;
  // Kernels that call ops mean to run them, also when this thread builds a graph or has a tape.
  const PlainDispatch outside;
  const KernelScope scope;
  for (const Plan::Step& step : plan.steps) {
    context.cancellation().check();
    take_inputs(plan, step, slots, inputs);
    const std::span<Tensor> outputs(slots.data() + step.first_output,
                                    static_cast<size_t>(step.num_outputs));
    const auto start = times != nullptr ? std::chrono::steady_clock::now()
                                        : std::chrono::steady_clock::time_point();
    try {
      if (step.check_inputs) step.op->infer({step.op->name, inputs, step.node->attrs});
      execute(*step.op, inputs, step.node->attrs, outputs, &context);
    } catch (const Error& error) {
      raise_for(*step.node, error.status());
    }
    if (times != nullptr) {
      times->push_back({step.node, start, std::chrono::steady_clock::now(), bytes_of(outputs)});
    }
    for (int i = step.first_unused; i < step.first_unused + step.num_unused; ++i) {
      slots[static_cast<size_t>(plan.unused_outputs[static_cast<size_t>(i)])] = Tensor();
    }
  }
  std::vector<Tensor> fetches;
  for (const int slot : plan.fetch_slots) fetches.push_back(slots[static_cast<size_t>(slot)]);
  return fetches;
}

}  // namespace cohort::internal
