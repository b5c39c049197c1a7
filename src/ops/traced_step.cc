#include "ops/traced_step.h"

#include <utility>

#include "base/timeline.h"
#include "ops/dispatch.h"
#include "ops/kernel.h"
#include "tensor/devices.h"

namespace cohort::internal {
namespace {

TimelineTime time_of(int64_t nanoseconds) {
  return TimelineTime(std::chrono::nanoseconds(nanoseconds));
}

// Inputs: when the part began, 0 for one that begins here; what the part ends with.
void add_part(const Kernel& k, TimelineTime now) {
  const auto began = k.inputs[0].to<int64_t>();
  if (began == 0 || !timeline_is_on()) return;
  const std::string& part = k.attrs.get<std::string>("part");
  const int row = traced_step_row(current_device().full_name);
  if (part == "forward") {
    add_to_timeline(row, "forward", part, time_of(began), now);
  } else if (part == "backward") {
    add_to_timeline(row, "backward", part, time_of(began), now);
  } else {
    add_traced_step(row, k.inputs[1].to<int64_t>(), time_of(began), now);
  }
}

}  // namespace

// Gives the time at which its inputs are there. Times of two processes cannot be compared.
extern constexpr OpDef kTimelinePart{
    .name = "TimelinePart",
    .inputs = {1, 3},
    .dtypes = kAnyType,
    .attrs = {{"part", AttrKind::Text}},
    .infer = [](const OpInputs&) -> Specs {
      return {{kInt64, Shape{}}};
    },
    .compute =
        [](Kernel& k) {
          const TimelineTime now = std::chrono::steady_clock::now();
          add_part(k, now);
          k.outputs[0] = Tensor(int64_t{now.time_since_epoch().count()});
        },
    .no_gradient_because = "it gives the time",
    .traits = Trait::HasEffect | Trait::Observes,
};

namespace {

constinit ContextSlot<TracedStep> traced_step;

Tensor part(const std::string& device, const char* name, const std::vector<Tensor>& inputs) {
  const RecordingPause not_recorded;
  const DeviceScope unplaced(nullptr);
  const DeviceScope there(device);
  return apply(kTimelinePart, inputs, {{"part", std::string(name)}}, {});
}

}  // namespace

TracedStepScope::TracedStepScope() : ContextValue(traced_step, {}) {}

void begin_traced_step() {
  if (!timeline_is_on() || !is_tracing()) return;
  const std::string here = requested_device("step", kTimelinePart.name).to_string();
  traced_step.get() = {
      .device = here, .began = part(here, "step", {Tensor(int64_t{0})}), .backward_began = {}};
}

void end_traced_forward(const Tensor& loss) {
  if (!timeline_is_on() || !is_tracing()) return;
  TracedStep& step = traced_step.get();
  if (!step.began.defined() || step.backward_began.defined()) return;
  step.backward_began = part(step.device, "forward", {step.began, loss});
}

void end_traced_step(const Tensor& count, const Tensor& updates) {
  if (!timeline_is_on() || !is_tracing()) return;
  const TracedStep step = std::exchange(traced_step.get(), {});
  if (!step.backward_began.defined()) return;
  part(step.device, "backward", {step.backward_began, updates});
  part(step.device, "step", {step.began, count, updates});
}

}  // namespace cohort::internal
