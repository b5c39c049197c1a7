#include "ops/variable_ops.h"

#include <typeinfo>

#include "base/raise.h"
#include "cohort/ops.h"
#include "ops/device_execution.h"
#include "ops/dispatch.h"
#include "ops/kernel.h"
#include "tensor/memory.h"

namespace cohort::internal {
namespace {

// The variable's dtype and shape are attributes: a handle in a graph does not know them.
Specs infer_variable(const OpInputs& inputs) {
  require_handle(inputs, "a variable's");
  return infer_declared(inputs);
}

// A variable and a value of its dtype.
Specs infer_change(const OpInputs& inputs) {
  Specs specs = infer_variable(inputs);
  if (inputs.dtype(1) != specs[0].dtype) {
    raise(Code::InvalidArgument, "[{}] the variable is {}, but the value is {}", inputs.op,
          to_string(specs[0].dtype), to_string(inputs.dtype(1)));
  }
  return specs;
}

Specs infer_assign(const OpInputs& inputs) {
  Specs specs = infer_change(inputs);
  if (!inputs.shape(1).is_compatible_with(specs[0].shape)) {
    raise(Code::InvalidArgument, "[{}] the variable has shape {}, but the value has {}", inputs.op,
          specs[0].shape.to_string(), inputs.shape(1).to_string());
  }
  return specs;
}

// State may be shared with a graph that declares it differently: what is stored wins.
void check_stored(const VariableCell& cell, const Tensor& value, const Shape& declared) {
  if (!cell.is_initialized()) return;
  const Tensor stored = cell.read();
  const bool same_shape = stored.shape() == value.shape() || !declared.is_fully_known();
  if (stored.dtype() == value.dtype() && same_shape) return;
  raise(Code::InvalidArgument,
        "[Assign] variable '{}' holds {} of shape {}, got {} of shape {}; another graph may have "
        "declared it differently",
        cell.name(), to_string(stored.dtype()), stored.shape().to_string(),
        to_string(value.dtype()), value.shape().to_string());
}

// A delta may be smaller than the value when it broadcasts to its shape.
void check_broadcasts(std::string_view operation, const Shape& delta, const Shape& value) {
  if (broadcast_shapes(operation, value, delta).is_compatible_with(value)) return;
  raise(Code::InvalidArgument, "[{}] a delta of shape {} does not fit the variable's value of {}",
        operation, delta.to_string(), value.to_string());
}

Specs infer_delta(const OpInputs& inputs) {
  Specs specs = infer_change(inputs);
  if (specs[0].shape.is_fully_known() && inputs.shape(1).has_rank()) {
    check_broadcasts(inputs.op, inputs.shape(1), specs[0].shape);
  }
  return specs;
}

// target += sign * delta, for as much as one thread does anyway. Calling the kernel library takes
// longer than adding a few thousand numbers.
template <typename T>
void add_elements(at::Tensor& target, const std::byte* delta, int sign) {
  T* const to = target.data_ptr<T>();
  const T* const from = reinterpret_cast<const T*>(delta);
  const int64_t count = target.numel();
  if (sign > 0) {
    for (int64_t i = 0; i < count; ++i) to[i] += from[i];
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] -= from[i];
  }
}

// Changes `value`, which is not shared. False when such a loop does not fit it.
bool add_plainly(const Tensor& value, const Tensor& delta, int sign) {
  constexpr int64_t kMaxElements = 32768;
  const DType dtype = value.dtype();
  if ((dtype != kFloat32 && dtype != kFloat64) || dtype != delta.dtype() ||
      value.size() > kMaxElements || (has_gpus() && !aten(value).is_cpu()) ||
      body(value).shape != body(delta).shape) {
    return false;
  }
  at::Tensor target = aten(value);
  if (dtype == kFloat32) {
    add_elements<float>(target, element_bytes(delta), sign);
  } else {
    add_elements<double>(target, element_bytes(delta), sign);
  }
  return true;
}

void add_to_variable(Kernel& k, std::string_view operation, int sign) {
  VariableCell& cell = cell_of(k.inputs[0]);
  k.outputs[0] = cell.update([&](const Tensor& value) {
    check_declared(cell, value, k.attrs.get<DType>("dtype"));
    if (add_plainly(value, k.inputs[1], sign)) return;
    check_broadcasts(operation, k.inputs[1].shape(), value.shape());
    at::Tensor target = aten(value);
    if (sign > 0) {
      target.add_(in(k, 1));
    } else {
      target.sub_(in(k, 1));
    }
  });
}

// (handle, value)
constexpr OpDef change_op(std::string_view name, Infer infer, Compute compute) {
  return {.name = name,
          .inputs = 2,
          .dtypes = kAnyType | kResourceType,
          .attrs = kDeclaredAttrs,
          .infer = infer,
          .compute = compute,
          .no_gradient_because = "it changes state",
          .traits = Trait::HasEffect};
}

Attrs attrs_of(const VariableHandle& variable) {
  return {{"dtype", variable.dtype}, {"shape", variable.shape}};
}

Tensor apply_to(const OpDef& op, const VariableHandle& variable, const Tensor& value) {
  return apply(op, {variable.handle, value}, attrs_of(variable));
}

}  // namespace

extern constexpr OpDef kReadVariable{
    .name = "ReadVariable",
    .inputs = 1,
    .dtypes = kResourceType,
    .attrs = kDeclaredAttrs + AttrList{{"trainable", AttrKind::Bool}},
    .infer = infer_variable,
    .compute =
        [](Kernel& k) {
          const VariableCell& cell = cell_of(k.inputs[0]);
          k.outputs[0] = cell.read();
          check_declared(cell, k.outputs[0], k.attrs.get<DType>("dtype"));
        },
    .no_gradient_because = "a variable's gradient is collected where it is read",
    .traits = Trait::ReadsState,
};

extern constexpr OpDef kVariableIsInitialized{
    .name = "VariableIsInitialized",
    .inputs = 1,
    .dtypes = kResourceType,
    .infer = [](const OpInputs& inputs) -> Specs {
      require_handle(inputs, "a variable's");
      return {{kBool, Shape{}}};
    },
    .compute =
        [](Kernel& k) {
          set(k, at::scalar_tensor(cell_of(k.inputs[0]).is_initialized(), at::kBool));
        },
    .no_gradient_because = "it does not read the value",
    .traits = Trait::ReadsState,
};

extern constexpr OpDef kAssignVariable = change_op("AssignVariable", infer_assign, [](Kernel& k) {
  // The same memory as a tensor of its own: a tape tells by identity what was read from which
  // variable.
  const Tensor& value = k.inputs[1];
  check_stored(cell_of(k.inputs[0]), value, k.attrs.get<Shape>("shape"));
  const bool numbers = is_numeric(value.dtype());
  k.outputs[0] = cell_of(k.inputs[0]).assign(numbers ? from_aten(in(k, 1)) : value);
});

extern constexpr OpDef kAssignAddVariable = change_op(
    "AssignAddVariable", infer_delta, [](Kernel& k) { add_to_variable(k, "AssignAdd", 1); });

extern constexpr OpDef kAssignSubVariable = change_op(
    "AssignSubVariable", infer_delta, [](Kernel& k) { add_to_variable(k, "AssignSub", -1); });

void check_declared(const VariableCell& cell, const Tensor& stored, DType declared) {
  if (stored.dtype() == declared) return;
  raise(Code::InvalidArgument,
        "[Variable] '{}' holds {}, but this graph declares it {}; graphs that share a variable "
        "must agree on its dtype",
        cell.name(), to_string(stored.dtype()), to_string(declared));
}

void raise_undefined_variable() {
  raise(Code::FailedPrecondition,
        "[Variable] this variable holds nothing: it was default-constructed and never assigned; "
        "make it with an initial value");
}

VariableCell& cell_of(const Tensor& handle) {
  Resource* const resource = resource_of(handle).get();
  // Most handles are of this very class, and comparing types is quicker than dynamic_cast.
  if (typeid(*resource) == typeid(VariableCell)) return static_cast<VariableCell&>(*resource);
  auto* cell = dynamic_cast<VariableCell*>(resource);
  if (cell == nullptr) raise(Code::InvalidArgument, "[Variable] the handle is not a variable's");
  return *cell;
}

namespace {

// A read as an op. It says whether the variable trains, for tapes that meet its node later.
Tensor apply_read(const VariableHandle& variable, bool trainable) {
  Attrs attrs = attrs_of(variable);
  attrs.set("trainable", trainable);
  return apply(kReadVariable, {variable.handle}, std::move(attrs));
}

// Most handles are those of cells. A read takes some 75 ns, so the resource is looked up once.
Tensor read_now(const VariableHandle& variable, bool trainable) {
  const Resource& resource = *resource_of(variable.handle);
  if (typeid(resource) == typeid(VariableCell)) {
    Tensor value = static_cast<const VariableCell&>(resource).read();
    if (has_gpus()) [[unlikely]]
      return for_this_scope(value);
    return value;
  }
  const bool here = remote_resource_of({&variable.handle, 1}) == nullptr;
  return here ? cell_of(variable.handle).read() : apply_read(variable, trainable);
}

void check_shape(const VariableHandle& variable, const Tensor& value, std::string_view operation) {
  if (value.shape().is_compatible_with(variable.shape)) return;
  raise(Code::InvalidArgument, "[{}] variable '{}' has shape {}, got a value of shape {}",
        operation, variable.name, variable.shape.to_string(), value.shape().to_string());
}

Tensor fit_delta(const VariableHandle& variable, const Tensor& delta, std::string_view operation) {
  require_arithmetic(variable, operation);
  const Tensor fitted = fit_to_variable(variable, delta, operation);
  if (variable.shape.is_fully_known() && delta.shape().has_rank()) {
    check_broadcasts(operation, delta.shape(), variable.shape);
  }
  return fitted;
}

}  // namespace

Tensor note_read(const Tensor& handle, const Tensor& value, bool trainable) {
  for (Recorder* recorder = thread_dispatch().recorder; recorder; recorder = recorder->outer) {
    recorder->variable_read(handle, value, trainable);
  }
  return value;
}

Tensor read_variable(const VariableHandle& variable, bool trainable) {
  const bool now = thread_dispatch().builder == nullptr && !variable.handle.is_symbolic();
  return note_read(variable.handle,
                   now ? read_now(variable, trainable) : apply_read(variable, trainable),
                   trainable);
}

void require_arithmetic(const VariableHandle& variable, std::string_view operation) {
  if (is_floating(variable.dtype) || is_integer(variable.dtype)) return;
  raise(Code::InvalidArgument, "[{}] variable '{}' is {}, which has no arithmetic", operation,
        variable.name, to_string(variable.dtype));
}

Tensor fit_to_variable(const VariableHandle& variable, const Tensor& value,
                       std::string_view operation) {
  const DType from = value.dtype();
  const DType to = variable.dtype;
  const bool numbers = is_numeric(from) && is_numeric(to);
  const bool narrows = is_floating(from) && !is_floating(to);
  if (from != to && (!numbers || narrows)) {
    raise(Code::InvalidArgument, "[{}] variable '{}' is {}, got a {} value; cast() it first",
          operation, variable.name, to_string(to), to_string(from));
  }
  return from == to ? value : cast(value, to);
}

Tensor is_variable_initialized(const VariableHandle& variable) {
  return apply(kVariableIsInitialized, {variable.handle}, {});
}

Tensor write_variable(const VariableHandle& variable, Write how, const Tensor& value) {
  switch (how) {
    case Write::Assign: {
      const Tensor fitted = fit_to_variable(variable, value, "Assign");
      check_shape(variable, fitted, "Assign");
      return apply_to(kAssignVariable, variable, fitted);
    }
    case Write::AssignAdd:
      return apply_to(kAssignAddVariable, variable, fit_delta(variable, value, "AssignAdd"));
    case Write::AssignSub:
      return apply_to(kAssignSubVariable, variable, fit_delta(variable, value, "AssignSub"));
  }
  raise(Code::Internal, "[Variable] {} is not a Write", static_cast<int>(how));
}

}  // namespace cohort::internal
