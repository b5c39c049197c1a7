#include "train/single_variable.h"

#include "base/raise.h"
#include "cohort/ops.h"
#include "ops/dispatch.h"
#include "ops/variable_ops.h"

namespace cohort::internal {

SingleVariable::SingleVariable(const VariableOptions& options)
    : options_(options),
      trainable_(
          options.trainable.value_or(options.synchronization != VariableSynchronization::OnRead)) {}

Tensor SingleVariable::read() const { return read_variable(handle_, trainable_); }
Tensor SingleVariable::assign(const Tensor& value) { return assign_variable(handle_, value); }
Tensor SingleVariable::assign_add(const Tensor& delta) {
  return assign_add_variable(handle_, delta);
}
Tensor SingleVariable::assign_sub(const Tensor& delta) {
  return assign_sub_variable(handle_, delta);
}
Tensor SingleVariable::scatter(ScatterOp op, const IndexedSlices& slices) {
  return scatter_variable(handle_, op, slices);
}

Tensor initial_value(const VariableRequest& request) {
  if (!request.initializer) {
    raise(Code::InvalidArgument, "[Variable] '{}': the initializer is empty", request.options.name);
  }
  const RecordingPause pause;
  Tensor value = identity(request.initializer());
  if (request.options.dtype) value = cast(value, *request.options.dtype);
  if (!value.shape().is_compatible_with(request.options.shape)) {
    raise(Code::InvalidArgument,
          "[Variable] '{}' is to have shape {}, but its initial value has {}", request.options.name,
          request.options.shape.to_string(), value.shape().to_string());
  }
  return value;
}

}  // namespace cohort::internal
