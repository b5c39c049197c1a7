#include "runtime/loaded_function.h"

#include "base/raise.h"
#include "graph/call_function.h"
#include "graph/serialize.h"
#include "ops/all_ops.h"
#include "ops/execute.h"
#include "ops/variable_ops.h"
#include "runtime/call_plan.h"

namespace cohort::internal {
namespace {

// The handle that `op` gives for state in the table: what a node of a graph would get.
Tensor handle_from(const OpDef& op, const Attrs& attrs, ResourceTable& resources) {
  op.infer({op.name, {}, attrs});
  Cancellation cancellation;
  std::atomic<uint64_t> unnumbered{0};
  CallContext context(&resources, cancellation, unnumbered);
  Tensor handle;
  const KernelScope scope;
  execute(op, {}, attrs, {&handle, 1}, &context);
  return handle;
}

Tensor variable_of_table(const CaptureInfo& capture, const LoadedFunction::Place& place) {
  return handle_from(kVariableHandle,
                     {{"container", place.container}, {"shared_name", capture.name}},
                     place.resources);
}

// The handle, if it is of such a variable as the function was traced with.
Tensor checked(Tensor handle, const CaptureInfo& capture) {
  const VariableCell& cell = cell_of(handle);
  if (!cell.is_initialized()) return handle;
  const Tensor value = cell.read();
  const Spec& wanted = capture.spec;
  if (value.dtype() != wanted.dtype || !value.shape().is_compatible_with(wanted.shape)) {
    raise(Code::InvalidArgument,
          "[Function] '{}' was traced with variable '{}' of {} {}, but here that is {} {}",
          capture.function, capture.name, to_string(wanted.dtype), wanted.shape.to_string(),
          to_string(value.dtype()), value.shape().to_string());
  }
  return handle;
}

Tensor bind_capture(const CaptureInfo& capture, const LoadedFunction::Place& place,
                    const BindCapture& variables) {
  switch (capture.kind) {
    case CaptureKind::Variable:
      return checked(variables ? variables(capture) : variable_of_table(capture, place), capture);
    case CaptureKind::Iterator:
      return handle_from(kIteratorHandle,
                         {{"dataset", make_strings({capture.dataset}, {})},
                          {"container", place.container},
                          {"shared_name", capture.name}},
                         place.resources);
    case CaptureKind::Tensor:
      break;
  }
  raise(Code::InvalidArgument,
        "[Function] '{}' was traced inside of a graph and uses its tensor '{}', which is not here",
        capture.function, capture.name);
}

void check_arguments(const GraphFunction& function, std::span<const Tensor> arguments) {
  const Specs wanted = argument_specs(function);
  if (arguments.size() != function.num_own_arguments()) {
    raise(Code::InvalidArgument, "[Function] '{}' takes {} tensors, got {}", function.name,
          function.num_own_arguments(), arguments.size());
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    const DType dtype = arguments[i].dtype();
    const Shape shape = arguments[i].shape();
    if (dtype == wanted[i].dtype && shape.is_compatible_with(wanted[i].shape)) continue;
    raise(Code::InvalidArgument, "[Function] argument {} of '{}' was traced as {} {}, got {} {}", i,
          function.name, to_string(wanted[i].dtype), wanted[i].shape.to_string(), to_string(dtype),
          shape.to_string());
  }
}

}  // namespace

LoadedFunction::LoadedFunction(std::string_view bytes, Place place, const BindCapture& variables)
    : place_(std::move(place)) {
  function_ = deserialize_function(
      bytes, [&](const CaptureInfo& capture) { return bind_capture(capture, place_, variables); });
}

std::vector<Tensor> LoadedFunction::call(std::span<const Tensor> arguments,
                                         Cancellation& cancellation) const {
  check_arguments(*function_, arguments);
  CallContext context(&place_.resources, cancellation, function_->calls());
  return context.call_with_captures(*function_, arguments);
}

std::vector<Tensor> LoadedFunction::call_op_by_op(std::span<const Tensor> arguments) const {
  check_arguments(*function_, arguments);
  return call_inline(*function_, arguments, function_->calls()++);
}

}  // namespace cohort::internal
