// Changing some rows of a variable.

#include "base/raise.h"
#include "ops/checks.h"
#include "ops/declared_dtype.h"
#include "ops/kernel.h"
#include "ops/row_update.h"
#include "ops/variable_ops.h"
#include "tensor/visit.h"

namespace cohort::internal {
namespace {

// The smallest integer has no negative: its quotient by -1 wraps around to itself.
template <typename T>
T quotient(T a, T b) {
  if constexpr (std::is_signed_v<T> && std::is_integral_v<T>) {
    if (b == T{-1}) return static_cast<T>(uint64_t{0} - static_cast<uint64_t>(a));
  }
  return static_cast<T>(a / b);
}

// Integers wrap around.
template <typename T>
T combine(ScatterOp op, T old_value, T new_value) {
  using Wide = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;
  const auto a = static_cast<Wide>(old_value);
  const auto b = static_cast<Wide>(new_value);
  switch (op) {
    case ScatterOp::Update:
      return new_value;
    case ScatterOp::Add:
      return static_cast<T>(a + b);
    case ScatterOp::Sub:
      return static_cast<T>(a - b);
    case ScatterOp::Mul:
      return static_cast<T>(a * b);
    case ScatterOp::Div:
      return quotient(old_value, new_value);
    case ScatterOp::Min:
      return new_value < old_value ? new_value : old_value;
    case ScatterOp::Max:
      return old_value < new_value ? new_value : old_value;
  }
  return old_value;
}

// Row by row, in the order given, so that a row named twice is changed twice.
template <typename T>
void scatter_rows(const RowUpdate& update, T* table, const T* values, ScatterOp op) {
  for (int64_t i = 0; i < update.count; ++i) {
    T* row = table + update.rows[i] * update.width;
    const T* change = values + i * update.width;
    for (int64_t j = 0; j < update.width; ++j) {
      if constexpr (std::is_same_v<T, bool>) {
        row[j] = combine<int>(op, row[j], change[j]) != 0;
      } else if constexpr (std::is_arithmetic_v<T>) {
        row[j] = combine(op, row[j], change[j]);
      } else {
        row[j] = T(combine<float>(op, row[j], change[j]));
      }
    }
  }
}

void check_division(ScatterOp op, const at::Tensor& values) {
  if (op != ScatterOp::Div || values.is_floating_point() || values.numel() == 0) return;
  if (values.eq(0).any().item<bool>()) {
    raise(Code::InvalidArgument, "[ScatterVariable] an integer is divided by zero");
  }
}

}  // namespace

extern constexpr OpDef kScatterVariable{
    .name = "ScatterVariable",
    .inputs = 3,
    .dtypes = kNumericTypes | kResourceType,
    .attrs = {{"op", AttrKind::Int}, {"dtype", AttrKind::DType}, {"shape", AttrKind::Shape}},
    .infer = [](const OpInputs& inputs) -> Specs {
      require_integers(inputs, 1, "the indices");
      const auto dtype = inputs.attrs.get<DType>("dtype");
      if (inputs.dtype(2) != dtype) {
        raise(Code::InvalidArgument, "[{}] the variable is {}, but the values are {}", inputs.op,
              to_string(dtype), to_string(inputs.dtype(2)));
      }
      return {{dtype, inputs.attrs.get<Shape>("shape")}};
    },
    .compute =
        [](Kernel& k) {
          VariableCell& cell = cell_of(k.inputs[0]);
          const auto op = static_cast<ScatterOp>(k.attrs.integer("op"));
          const at::Tensor values = in(k, 2).contiguous();
          check_division(op, values);
          k.outputs[0] = cell.update([&](const Tensor& table) {
            check_declared(cell, table, k.attrs.get<DType>("dtype"));
            const RowUpdate update(cell.name(), aten(table), in(k, 1), values);
            visit_numeric(table.dtype(), [&]<typename T>(T) {
              scatter_rows(update, static_cast<T*>(aten(table).data_ptr()),
                           static_cast<const T*>(values.data_ptr()), op);
            });
          });
        },
    .gradient = nullptr,
    .no_gradient_because = "it changes state",
    .traits = Trait::HasEffect,
};

Tensor scatter_variable(const VariableHandle& variable, ScatterOp op, const IndexedSlices& slices) {
  const bool chooses = op == ScatterOp::Update || op == ScatterOp::Min || op == ScatterOp::Max;
  if (!chooses) require_arithmetic(variable, "Scatter");
  const Tensor values = fit_to_variable(variable, slices.values, "Scatter");
  return apply(
      kScatterVariable, {variable.handle, slices.indices, values},
      {{"op", static_cast<int64_t>(op)}, {"dtype", variable.dtype}, {"shape", variable.shape}});
}

}  // namespace cohort::internal
