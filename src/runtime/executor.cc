#include "runtime/executor.h"

#include <fmt/format.h>

#include "base/raise.h"
#include "base/timeline.h"
#include "graph/fold_constants.h"
#include "ops/dispatch.h"

namespace cohort::internal {
namespace {

// Throws the error of a kernel as the node's.
[[noreturn]] void raise_for(const Node& node, Status status) {
  std::string where = fmt::format("node '{}'", node.name);
  if (!node.device.to_string().empty()) where += " on " + node.device.to_string();
  if (node.site.line > 0) where += fmt::format(", made at {}:{}", node.site.file, node.site.line);
  status.message += " (" + where + ")";
  throw Error(std::move(status));
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

void add_to_timeline(const std::vector<StepTime>& steps, std::string_view device) {
  constexpr auto kShortest = std::chrono::microseconds(20);
  const int row = timeline_row(device);
  for (const StepTime& step : steps) {
    if (step.end - step.start < kShortest) continue;
    add_to_timeline(row, "node", step.node->name, step.start, step.end);
  }
}

PlanRun::PlanRun(const Plan& plan, std::span<const Tensor> feeds, RunContext& context,
                 Setting setting)
    : plan_(plan),
      context_(context),
      setting_(setting),
      slots_(static_cast<size_t>(plan.num_slots)) {
  for (size_t i = 0; i < feeds.size(); ++i) {
    slots_[static_cast<size_t>(plan.feed_slots[i])] = feeds[i];
  }
}

Edges& PlanRun::edges() const {
  if (setting_.edges != nullptr) return *setting_.edges;
  raise(Code::FailedPrecondition, "[Graph] a run with one part has no edges");
}

void PlanRun::settle() {
  // A caller that wants the times of all steps gets those of the settled ones, too.
  SettledValues* const kept = setting_.times == nullptr ? setting_.settled : nullptr;
  const auto first = slots_.begin() + plan_.first_settled_slot;
  const SettledValues::Kept before = kept == nullptr ? SettledValues::Kept{} : kept->get();
  if (before.values) {
    std::copy(before.values->begin(), before.values->end(), first);
  } else {
    for (size_t i = 0; i < plan_.num_settled; ++i) run_step(plan_.steps[i]);
    // The count is from before the steps: if state was cleared meanwhile, get() does not return
    // these values.
    if (kept != nullptr) kept->put(before.clears, {first, first + plan_.num_settled_slots});
  }
  next_ = plan_.num_settled;
}

// Moves or copies the inputs out of their slots.
void PlanRun::take_inputs(const Plan::Step& step) {
  inputs_.clear();
  const int* sources = plan_.input_slots.data() + step.first_input;
  for (int i = 0; i < step.num_inputs; ++i) {
    Tensor& slot = slots_[static_cast<size_t>(sources[i])];
    // The last use moves the value out of its slot, so that the run does not keep its memory to the
    // end. Inputs after the 32nd have no bit and are copied.
    if (i < 32 && ((step.last_uses >> i) & 1) != 0) {
      inputs_.push_back(std::move(slot));
    } else {
      inputs_.push_back(slot);
    }
  }
}

void PlanRun::compute(const Plan::Step& step, std::span<Tensor> outputs) {
  take_inputs(step);
  if (step.check_inputs) step.op->infer({step.op->name, inputs_, step.node->attrs});
  execute(*step.op, inputs_, step.node->attrs, outputs, &context_);
}

void PlanRun::send(const Plan::Step& step) {
  Tensor& slot =
      slots_[static_cast<size_t>(plan_.input_slots[static_cast<size_t>(step.first_input)])];
  edges().send(step.leaves_by, slot);
  if ((step.last_uses & 1) != 0) slot = Tensor();
}

void PlanRun::run_step(const Plan::Step& step) {
  const std::span<Tensor> outputs(slots_.data() + step.first_output,
                                  static_cast<size_t>(step.num_outputs));
  const auto start = setting_.times != nullptr ? std::chrono::steady_clock::now()
                                               : std::chrono::steady_clock::time_point();
  try {
    if (step.leaves_by >= 0) {
      send(step);
    } else if (step.arrives_by >= 0) {
      outputs[0] = edges().take(step.arrives_by);
    } else {
      compute(step, outputs);
    }
  } catch (const Error& error) {
    raise_for(*step.node, error.status());
  }
  if (setting_.times != nullptr) {
    setting_.times->push_back(
        {step.node, start, std::chrono::steady_clock::now(), bytes_of(outputs)});
  }
  for (int i = step.first_unused; i < step.first_unused + step.num_unused; ++i) {
    slots_[static_cast<size_t>(plan_.unused_outputs[static_cast<size_t>(i)])] = Tensor();
  }
}

bool PlanRun::advance() {
  // A kernel that calls an op runs it, even if this thread builds a graph or has a tape.
  const PlainDispatch outside;
  const KernelScope scope;
  if (next_ < plan_.num_settled) settle();
  for (; next_ < plan_.steps.size(); ++next_) {
    const Plan::Step& step = plan_.steps[next_];
    context_.cancellation().check();
    if (step.arrives_by >= 0 && !edges().await(step.arrives_by)) return false;
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
                             PlanRun::Setting setting) {
  PlanRun run(plan, feeds, context, setting);
  run.advance();
  return run.fetches();
}

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
  if (resources_ != nullptr) return *resources_;
  raise(Code::FailedPrecondition, "[Function] named state needs a session");
}

}  // namespace cohort::internal
