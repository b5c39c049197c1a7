#include "train/local_variable.h"

#include <fmt/format.h>

#include "base/raise.h"
#include "cohort/ops.h"
#include "ops/dispatch.h"
#include "ops/variable_ops.h"
#include "tensor/print.h"

namespace cohort::internal {
namespace {

std::shared_ptr<VariableCell> make_cell(const VariableRequest& request) {
  Tensor value = initial_value(request);
  const Shape shape = request.options.shape.has_rank() ? request.options.shape : value.shape();
  return std::make_shared<VariableCell>(request.options.name, shape, std::move(value));
}

}  // namespace

Tensor initial_value(const VariableRequest& request) {
  const RecordingPause pause;
  Tensor value = identity(request.initializer());
  if (request.options.dtype) value = cast(value, *request.options.dtype);
  if (!value.shape().is_compatible_with(request.options.shape)) {
    raise(Code::InvalidArgument, "[Variable] '{}' is to have shape {}, but its initial value has {}",
          request.options.name, request.options.shape.to_string(), value.shape().to_string());
  }
  return value;
}

LocalVariable::LocalVariable(const VariableRequest& request)
    : options_(request.options),
      trainable_(options_.trainable.value_or(options_.synchronization !=
                                             VariableSynchronization::OnRead)),
      cell_(make_cell(request)) {}

Tensor LocalVariable::read() const { return read_variable(cell_, trainable_); }
Tensor LocalVariable::assign(const Tensor& value) { return assign_variable(cell_, value); }
Tensor LocalVariable::assign_add(const Tensor& delta) { return assign_add_variable(cell_, delta); }
Tensor LocalVariable::assign_sub(const Tensor& delta) { return assign_sub_variable(cell_, delta); }

Tensor LocalVariable::scatter(ScatterOp op, const IndexedSlices& slices) {
  return scatter_variable(cell_, op, slices);
}

std::string LocalVariable::to_string() const {
  return fmt::format("<Variable '{}:0' shape={} dtype={}, value={}>", name(),
                     cell_->shape().to_string(), cohort::to_string(cell_->dtype()),
                     format_like_python(cell_->read()));
}

}  // namespace cohort::internal
