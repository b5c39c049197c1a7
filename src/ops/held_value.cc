#include "cohort/internal/held_value.h"

#include "ops/variable_cell.h"

namespace cohort::internal {
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

}  // namespace cohort::internal
