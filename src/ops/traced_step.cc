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

// Gives the time at which its inputs are there. Only times of one process may meet.
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

// Of the function that this thread traces; the nodes belong to its graph. All of them are on one
// device, since the clocks of two machines differ.
struct TracedStep {
  std::string device;
  Tensor began;
  Tensor backward_began;
};
thread_local TracedStep traced_step;

bool is_tracing() {
  const GraphBuilder* const builder = thread_dispatch().builder;
  return builder != nullptr && !builder->makes_variables();
}

bool is_of_this_graph(const Tensor& node) {
  if (!node.defined()) return false;
  return static_cast<const SymbolBody&>(body(node)).builder.lock().get() ==
         thread_dispatch().builder;
}

Tensor part(const std::string& device, const char* name, const std::vector<Tensor>& inputs) {
  const RecordingPause not_recorded;
  const DeviceScope unplaced(nullptr);
  const DeviceScope there(device);
  return apply(kTimelinePart, inputs, {{"part", std::string(name)}}, {});
}

}  // namespace

void begin_traced_step() {
  if (!timeline_is_on() || !is_tracing()) return;
  const std::string here = requested_device("step", kTimelinePart.name).to_string();
  traced_step = {
      .device = here, .began = part(here, "step", {Tensor(int64_t{0})}), .backward_began = {}};
}

void end_traced_forward(const Tensor& loss) {
  if (!timeline_is_on() || !is_tracing() || traced_step.backward_began.defined()) return;
  if (!is_of_this_graph(traced_step.began)) return;
  traced_step.backward_began = part(traced_step.device, "forward", {traced_step.began, loss});
}

void end_traced_step(const Tensor& count, const Tensor& updates) {
  if (!timeline_is_on() || !is_tracing()) return;
  const TracedStep step = std::exchange(traced_step, {});
  if (!is_of_this_graph(step.backward_began)) return;
  part(step.device, "backward", {step.backward_began, updates});
  part(step.device, "step", {step.began, count, updates});
}

}  // namespace cohort::internal
