// The op that notices when a member is gone: its run ends before the member has left in order.

#include "base/raise.h"
#include "cohort/error.h"
#include "ops/fifo_queue.h"
#include "ops/kernel.h"
#include "ops/variable_ops.h"

namespace cohort::internal {
namespace {

// The inputs.
constexpr size_t kPlace = 0;    // a queue: a run waits there for each member that is present
constexpr size_t kAbsent = 1;   // a variable, int64: 1 for each absent member
constexpr size_t kChanges = 2;  // a queue that tells of changes of the variable
constexpr size_t kArrived = 3;  // a queue that gets the number of a member that has become present
constexpr size_t kRow = 4;      // the member's number

// All queues hold single numbers.
QueueState& queue_at(const Kernel& k, size_t input) {
  auto* queue = dynamic_cast<QueueState*>(resource_of(k.inputs[input]).get());
  const Spec number{kInt64, Shape{}};
  if (queue != nullptr && queue->components() == pack_specs({&number, 1})) return *queue;
  raise(Code::InvalidArgument, "[HoldPresence] input {} must be a queue of int64 scalars", input);
}

void mark_absent(VariableCell& absent, int64_t row) {
  if (!absent.is_initialized()) return;  // all count as present
  absent.update([&](const Tensor& value) {
    if (value.dtype() != kInt64 || value.rank() != 1 || row < 0 || row >= value.size()) {
      raise(Code::InvalidArgument, "[HoldPresence] row {} does not exist in '{}'", row,
            absent.name());
    }
    at::Tensor numbers = aten(value);
    numbers.data_ptr<int64_t>()[row] = 1;
  });
}

// A member that came back before its end was noticed is present.
void leave(VariableCell& absent, int64_t row, const QueueState& place, QueueState& changes) {
  if (place.pending_dequeues() > 0) return;
  mark_absent(absent, row);
  changes.enqueue({{Tensor(int64_t{0})}}, cancellation_of(nullptr));
}

void hold(Kernel& k) {
  QueueState& place = queue_at(k, kPlace);
  QueueState& changes = queue_at(k, kChanges);
  VariableCell& absent = cell_of(k.inputs[kAbsent]);
  const auto row = k.inputs[kRow].to<int64_t>();
  try {
    queue_at(k, kArrived).enqueue({{Tensor(row)}}, cancellation_of(k.run));
    place.dequeue(1, cancellation_of(k.run), QueueState::LongWait::IsOnPurpose);
  } catch (...) {
    (void)capture_status([&] { leave(absent, row, place, changes); });
    throw;
  }
  set_nothing(k);
}

}  // namespace

// Waits for an element of the queue; a run that ends without one leaves a mark.
extern constexpr OpDef kHoldPresence{
    .name = "HoldPresence",
    .inputs = 5,
    .dtypes = kResourceType | kIntegerTypes,
    .infer = [](const OpInputs& inputs) -> Specs {
      for (const size_t handle : {kPlace, kAbsent, kChanges, kArrived}) {
        if (inputs.dtype(handle) == kResource) continue;
        raise(Code::InvalidArgument, "[{}] input {} must be a handle, got {}", inputs.op, handle,
              to_string(inputs.dtype(handle)));
      }
      if (inputs.dtype(kRow) != kInt64 || !inputs.shape(kRow).is_compatible_with(Shape{})) {
        raise(Code::InvalidArgument, "[{}] the number must be one int64, got {} of shape {}",
              inputs.op, to_string(inputs.dtype(kRow)), inputs.shape(kRow).to_string());
      }
      return nothing();
    },
    .compute = hold,
    .no_gradient_because = "it waits",
    .traits = Trait::HasEffect | Trait::MayWait | Trait::HostOnly,
};

}  // namespace cohort::internal
