#include "ops/variable_cell.h"

#include <chrono>

#include "base/raise.h"
#include "base/waiting.h"
#include "cohort/internal/held_value.h"
#include "ops/elementwise.h"
#include "ops/kernel.h"
#include "ops/run_context.h"
#include "tensor/memory.h"

namespace cohort::internal {
namespace {

// Waits until no reader holds the value, at most as long as a copy would take. Readers of a large
// value often release it within that time, and then the copy is not needed.
void await_readers(const Tensor& value) {
  constexpr int64_t kSmall = int64_t{1} << 20;
  constexpr int64_t kBytesPerMicrosecond = 2000;
  // Copying kSmall bytes takes half a millisecond, and a reader needs the core.
  constexpr PollPolicy kPolicy{.awake = std::chrono::microseconds(0),
                               .max_sleep = std::chrono::microseconds(20)};
  const int64_t bytes = value.size() * size_of(value.dtype());
  if (bytes < kSmall) return;
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::microseconds(bytes / kBytesPerMicrosecond);
  (void)poll_until(
      deadline, [&] { return is_exclusive(value); }, kPolicy);
}

// A copy in memory of its own, where the value is.
Tensor clone_of(const Tensor& value) {
  Tensor clone = from_aten(aten(value).clone(at::MemoryFormat::Contiguous));
  return has_gpus() ? on_device(clone, *body(value).device) : clone;
}

}  // namespace

VariableCell::VariableCell(std::string name, Tensor value)
    : name_(std::move(name)), value_(std::move(value)) {}

bool VariableCell::is_initialized() const {
  const std::lock_guard lock(mutex_);
  return value_.defined();
}

void VariableCell::check_initialized() const {
  if (value_.defined()) return;
  raise(Code::FailedPrecondition,
        "[Variable] '{}' has no value yet; run the variables' initializer first", name_);
}

Tensor VariableCell::read() const {
  const std::lock_guard lock(mutex_);
  check_initialized();
  return value_;
}

Tensor VariableCell::assign(Tensor value) {
  const std::lock_guard lock(mutex_);
  value_ = std::move(value);
  return value_;
}

Tensor VariableCell::update(const std::function<void(const Tensor& exclusive)>& change) {
  const std::lock_guard lock(mutex_);
  check_initialized();
  const ScopedKernel kernel;
  await_readers(value_);
  if (!is_exclusive(value_)) value_ = clone_of(value_);
  if (has_gpus() && body(value_).device->place != value_device().place) [[unlikely]] {
    change_copy(change);
  } else {
    change(value_);
  }
  return value_;
}

// A bridged kernel changes a copy on the host, which is then the value again.
void VariableCell::change_copy(const std::function<void(const Tensor& exclusive)>& change) {
  const Tensor copy = from_aten(at_place(aten(value_), value_device().place));
  change(copy);
  at::Tensor(aten(value_)).copy_(aten(copy));
}

namespace {

std::shared_ptr<VariableCell> find_cell(const Variable& copy) {
  const Tensor& handle = VariableAccess::impl(copy)->handle().handle;
  if (handle.is_symbolic()) return nullptr;
  return std::dynamic_pointer_cast<VariableCell>(resource_of(handle));
}

}  // namespace

Tensor held_value(const Variable& copy) {
  const auto cell = find_cell(copy);
  return cell != nullptr && cell->is_initialized() ? cell->read() : Tensor();
}

void set_held_value(const Variable& copy, const Tensor& value) { find_cell(copy)->assign(value); }

// A variable of a graph: the handle of the state that the run's device keeps under its name.
extern constexpr OpDef kVariableHandle = handle_op(
    "VariableHandle", {},
    [](const OpInputs&) -> Specs {
      return {{kResource, Shape{}}};
    },
    [](Kernel& k) {
      k.outputs[0] = make_resource(find_shared<VariableCell>(
          k, "VariableHandle", "variable",
          [](const std::string& name) { return std::make_shared<VariableCell>(name); }));
    });

}  // namespace cohort::internal
