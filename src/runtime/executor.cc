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

}  // namespace

PlanRun::PlanRun(const Plan& plan, std::span<const Tensor> feeds, RunContext& context,
                 std::vector<StepTime>* times, Arrivals* arrivals)
    : plan_(plan),
      context_(context),
      times_(times),
      arrivals_(arrivals),
      slots_(static_cast<size_t>(plan.num_slots)) {
  for (size_t i = 0; i < feeds.size(); ++i) {
    slots_[static_cast<size_t>(plan.feed_slots[i])] = feeds[i];
  }
}

// Moves or copies them out of their slots.
void PlanRun::take_inputs(const Plan::Step& step) {
  inputs_.clear();
  const int* sources = plan_.input_slots.data() + step.first_input;
  for (int i = 0; i < step.num_inputs; ++i) {
    Tensor& slot = slots_[static_cast<size_t>(sources[i])];
    if (i < 32 && ((step.last_uses >> i) & 1) != 0) {
      inputs_.push_back(std::move(slot));
    } else {
      inputs_.push_back(slot);
    }
  }
}

void PlanRun::run_step(const Plan::Step& step) {
  take_inputs(step);
  const std::span<Tensor> outputs(slots_.data() + step.first_output,
                                  static_cast<size_t>(step.num_outputs));
  const auto start = times_ != nullptr ? std::chrono::steady_clock::now()
                                       : std::chrono::steady_clock::time_point();
  try {
    if (step.check_inputs) step.op->infer({step.op->name, inputs_, step.node->attrs});
    execute(*step.op, inputs_, step.node->attrs, outputs, &context_);
  } catch (const Error& error) {
    raise_for(*step.node, error.status());
  }
  if (times_ != nullptr) {
    times_->push_back({step.node, start, std::chrono::steady_clock::now(), bytes_of(outputs)});
  }
  for (int i = step.first_unused; i < step.first_unused + step.num_unused; ++i) {
    slots_[static_cast<size_t>(plan_.unused_outputs[static_cast<size_t>(i)])] = Tensor();
  }
}

bool PlanRun::advance() {
  // Kernels that call ops mean to run them, also when this thread builds a graph or has a tape.
  const PlainDispatch outside;
  const KernelScope scope;
  for (; next_ < plan_.steps.size(); ++next_) {
    const Plan::Step& step = plan_.steps[next_];
    context_.cancellation().check();
    if (step.arrives_by >= 0 && arrivals_ != nullptr && !arrivals_->await(step.arrives_by)) {
      return false;
    }
    run_step(step);
  }
  return true;
}

std::vector<Tensor> PlanRun::fetches() const {
  std::vector<Tensor> fetches;
  for (const int slot : plan_.fetch_slots) fetches.push_back(slots_[static_cast<size_t>(slot)]);
  return fetches;
}

std::vector<Tensor> run_plan(const Plan& plan, std::span<const Tensor> feeds, RunContext& context,
                             std::vector<StepTime>* times) {
  PlanRun run(plan, feeds, context, times);
  run.advance();
  return run.fetches();
}

}  // namespace cohort::internal
