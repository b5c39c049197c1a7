#include "ops/variable_cell.h"

#include "base/raise.h"
#include "ops/scoped_kernel.h"
#include "tensor/aten.h"

namespace cohort::internal {
namespace {

// Whether the cell's own reference is the only one to the value's memory, and that is the kernel
// library's own: memory handed in by others is not for writing.
bool is_exclusive(const Tensor& value) {
  const at::Tensor& held = aten(value);
  if (TensorAccess::shared(value).use_count() != 1 || held.use_count() != 1 ||
      held.storage().use_count() != 1 || held.storage().allocator() == nullptr ||
      !held.is_contiguous()) {
    return false;
  }
  // use_count() alone does not order what other threads read before they let go; giving up a
  // reference of our own does.
  [[maybe_unused]] const Tensor ordered = value;
  return true;
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
  if (!is_exclusive(value_)) value_ = from_aten(aten(value_).clone(at::MemoryFormat::Contiguous));
  change(value_);
  return value_;
}

}  // namespace cohort::internal
