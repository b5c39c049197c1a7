#include "ops/variable_ops.h"

#include "base/raise.h"
#include "cohort/ops.h"
#include "ops/dispatch.h"
#include "ops/kernel.h"

namespace cohort::internal {
namespace {

// The variable's dtype and shape travel as attributes: a handle in a graph does not know them.
Specs infer_variable(const OpInputs& inputs) {
  if (inputs.dtype(0) != kResource) {
    raise(Code::InvalidArgument, "[{}] input 0 must be a variable's handle, got {}", inputs.op,
          to_string(inputs.dtype(0)));
  }
  return {{inputs.attrs.get<DType>("dtype"), inputs.attrs.get<Shape>("shape")}};
}

constexpr DTypeSet kHandleAndValue = kAnyType | kResourceType;
constexpr std::string_view kState = "it changes state";

Tensor apply_to(const OpDef& op, const std::shared_ptr<VariableCell>& cell,
                std::initializer_list<Tensor> values, Attrs attrs = {}) {
  std::vector<Tensor> inputs{handle_of(cell)};
  inputs.insert(inputs.end(), values);
  attrs.set("dtype", cell->dtype());
  attrs.set("shape", cell->shape());
  return apply(op, inputs, std::move(attrs), {});
}

}  // namespace

extern constexpr OpDef kReadVariable{
    .name = "ReadVariable",
    .dtypes = kResourceType,
    .infer = infer_variable,
    .compute = [](Kernel& k) { k.outputs[0] = cell_of(k.inputs[0]).read(); },
    .gradient = nullptr,
    .no_gradient_because = "a variable's gradient is collected where it is read",
    .stateful = true,
};

extern constexpr OpDef kAssignVariable{
    .name = "AssignVariable",
    .dtypes = kHandleAndValue,
    .infer = infer_variable,
    .compute = [](Kernel& k) { k.outputs[0] = cell_of(k.inputs[0]).assign(k.inputs[1]); },
    .gradient = nullptr,
    .no_gradient_because = kState,
    .stateful = true,
};

extern constexpr OpDef kAssignAddVariable{
    .name = "AssignAddVariable",
    .dtypes = kHandleAndValue,
    .infer = infer_variable,
    .compute =
        [](Kernel& k) {
          k.outputs[0] = cell_of(k.inputs[0]).update([&](const Tensor& value) {
            at::Tensor target = aten(value);
            target.add_(in(k, 1));
          });
        },
    .gradient = nullptr,
    .no_gradient_because = kState,
    .stateful = true,
};

extern constexpr OpDef kAssignSubVariable{
    .name = "AssignSubVariable",
    .dtypes = kHandleAndValue,
    .infer = infer_variable,
    .compute =
        [](Kernel& k) {
          k.outputs[0] = cell_of(k.inputs[0]).update([&](const Tensor& value) {
            at::Tensor target = aten(value);
            target.sub_(in(k, 1));
          });
        },
    .gradient = nullptr,
    .no_gradient_because = kState,
    .stateful = true,
};

VariableCell& cell_of(const Tensor& handle) {
  auto* cell = dynamic_cast<VariableCell*>(resource_of(handle).get());
  if (cell == nullptr) raise(Code::InvalidArgument, "[Variable] the handle is not a variable's");
  return *cell;
}

Tensor handle_of(const std::shared_ptr<VariableCell>& cell) { return make_resource(cell); }

Tensor read_variable(const std::shared_ptr<VariableCell>& cell, bool trainable) {
  const ThreadDispatch& dispatch = thread_dispatch();
  const Tensor value = dispatch.builder != nullptr ? apply_to(kReadVariable, cell, {}) : cell->read();
  for (Recorder* recorder = dispatch.recorder; recorder; recorder = recorder->outer) {
    recorder->variable_read(cell, value, trainable);
  }
  return value;
}

Tensor fit_to_variable(const VariableCell& cell, const Tensor& value, std::string_view operation) {
  const DType from = value.dtype();
  const DType to = cell.dtype();
  const bool numbers = is_numeric(from) && is_numeric(to);
  const bool narrows = is_floating(from) && !is_floating(to);
  if (from != to && (!numbers || narrows)) {
    raise(Code::InvalidArgument, "[{}] variable '{}' is {}, got a {} value; cast() it first",
          operation, cell.name(), to_string(to), to_string(from));
  }
  return from == to ? value : cast(value, to);
}

namespace {

void check_shape(const VariableCell& cell, const Tensor& value, std::string_view operation) {
  if (value.shape().is_compatible_with(cell.shape())) return;
  raise(Code::InvalidArgument, "[{}] variable '{}' has shape {}, got a value of shape {}", operation,
        cell.name(), cell.shape().to_string(), value.shape().to_string());
}

// A delta may be smaller than the variable when it broadcasts to its shape.
Tensor fit_delta(const VariableCell& cell, const Tensor& delta, std::string_view operation) {
  const Tensor fitted = fit_to_variable(cell, delta, operation);
  if (cell.shape().is_fully_known() && delta.shape().has_rank()) {
    const Shape joint = broadcast_shapes(operation, cell.shape(), delta.shape());
    if (!(joint == cell.shape())) check_shape(cell, delta, operation);
  }
  return fitted;
}

}  // namespace

Tensor assign_variable(const std::shared_ptr<VariableCell>& cell, const Tensor& value) {
  Tensor fitted = fit_to_variable(*cell, value, "Assign");
  check_shape(*cell, fitted, "Assign");
  return apply_to(kAssignVariable, cell, {fitted});
}

Tensor assign_add_variable(const std::shared_ptr<VariableCell>& cell, const Tensor& delta) {
  return apply_to(kAssignAddVariable, cell, {fit_delta(*cell, delta, "AssignAdd")});
}

Tensor assign_sub_variable(const std::shared_ptr<VariableCell>& cell, const Tensor& delta) {
  return apply_to(kAssignSubVariable, cell, {fit_delta(*cell, delta, "AssignSub")});
}

}  // namespace cohort::internal
