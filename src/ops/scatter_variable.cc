// Changing some rows of a variable.

#include "base/raise.h"
#include "kernels/indexed_rows.h"
#include "ops/kernel.h"
#include "ops/table_rows.h"
#include "ops/variable_ops.h"

namespace cohort::internal {
namespace {

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
            scatter_rows(table.dtype(), op, update.width, update.rows, update.count,
                         values.data_ptr(), aten(table).data_ptr());
          });
        },
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
