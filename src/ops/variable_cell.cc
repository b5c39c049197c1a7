#include "ops/variable_cell.h"

#include "ops/scoped_kernel.h"
#include "tensor/aten.h"

namespace cohort::internal {
namespace {

// Whether the cell's own reference is the only one to the value's memory.
bool is_exclusive(const Tensor& value) {
  const at::Tensor& held = aten(value);
  return TensorAccess::shared(value).use_count() == 1 && held.use_count() == 1 &&
         held.storage().use_count() == 1 && held.is_non_overlapping_and_dense();
}

}  // namespace

VariableCell::VariableCell(std::string name, Shape shape, Tensor value)
    : name_(std::move(name)), dtype_(value.dtype()), shape_(shape), value_(std::move(value)) {}

std::string VariableCell::device() const {
  const std::lock_guard lock(mutex_);
  return value_.device();
}

Tensor VariableCell::read() const {
  const std::lock_guard lock(mutex_);
  return value_;
}

Tensor VariableCell::assign(Tensor value) {
  const std::lock_guard lock(mutex_);
  value_ = std::move(value);
  return value_;
}

Tensor VariableCell::update(const std::function<void(const Tensor& exclusive)>& change) {
  const std::lock_guard lock(mutex_);
  const ScopedKernel kernel;
  if (!is_exclusive(value_)) value_ = from_aten(aten(value_).clone());
  change(value_);
  return value_;
}

}  // namespace cohort::internal
