#include "ops/variable_cell.h"

#include "base/raise.h"
#include "ops/in_place.h"
#include "ops/scoped_kernel.h"

namespace cohort::internal {

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
