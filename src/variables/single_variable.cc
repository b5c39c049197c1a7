#include "variables/single_variable.h"

#include <fmt/format.h>

#include "base/raise.h"
#include "cohort/device.h"
#include "cohort/ops.h"
#include "ops/dispatch.h"
#include "ops/variable_ops.h"
#include "tensor/print.h"

namespace cohort::internal {

SingleVariable::SingleVariable(const VariableOptions& options)
    : options_(options),
      trainable_(
          options.trainable.value_or(options.synchronization != VariableSynchronization::OnRead)) {}

Tensor SingleVariable::read() const { return read_variable(usable_handle(), trainable_); }
Tensor SingleVariable::write(Write how, const Tensor& value) {
  return write_variable(usable_handle(), how, value);
}
Tensor SingleVariable::scatter(ScatterOp op, const IndexedSlices& slices) {
  return scatter_variable(usable_handle(), op, slices);
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

namespace {

VariableHandle make_handle(const VariableRequest& request) {
  Tensor value = initial_value(request);
  const DType dtype = value.dtype();
  const Shape shape = request.options.shape.has_rank() ? request.options.shape : value.shape();
  const std::string& name = request.options.name;
  return {make_resource(std::make_shared<VariableCell>(name, std::move(value))), name, dtype,
          shape};
}

}  // namespace

LocalVariable::LocalVariable(const VariableRequest& request) : SingleVariable(request.options) {
  handle_ = make_handle(request);
}

std::string LocalVariable::device() const { return handle_.handle.device(); }

bool LocalVariable::is_initialized() const { return cell_of(handle_.handle).is_initialized(); }

std::shared_ptr<VariableImpl> LocalVariable::deep_copy() const {
  const DeviceScope here(device());
  const auto copy = std::make_shared<LocalVariable>(
      VariableRequest{[value = cell_of(handle_.handle).read()] { return value; }, options_});
  copy->strategy = strategy;
  return copy;
}

std::string LocalVariable::to_string() const {
  return fmt::format("<Variable '{}:0' shape={} dtype={}, value={}>", name(),
                     handle_.shape.to_string(), cohort::to_string(handle_.dtype),
                     format_like_python(cell_of(handle_.handle).read()));
}

}  // namespace cohort::internal
