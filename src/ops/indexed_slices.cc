// Rows by index: those of variables, which are read and changed, and gradients that are rows of a
// tensor.

#include <ostream>

#include "base/raise.h"
#include "cohort/gradient.h"
#include "cohort/ops.h"
#include "kernels/indexed_rows.h"
#include "ops/device_execution.h"
#include "ops/elementwise.h"
#include "ops/kernel.h"
#include "ops/table_rows.h"
#include "ops/variable_ops.h"

namespace cohort {
namespace internal {
namespace {

Specs infer_read_rows(const OpInputs& inputs) {
  require_handle(inputs, "a variable's");
  require_integers(inputs, 1, "the rows");
  const auto& table = inputs.attrs.get<Shape>("shape");
  require_rank_at_least(inputs.op, table, 1, "the variable");
  require_rank(inputs.op, inputs.shape(1), 1, "the rows");
  const Shape rows = table.with(0, inputs.shape(1).has_rank() ? inputs.shape(1)[0] : -1);
  return {{inputs.attrs.get<DType>("dtype"), rows}};
}

void compute_rows_in_range(Kernel& k) {
  const at::Tensor ids = in(k, 0).to(at::kLong).reshape({-1}).contiguous();
  const int64_t begin = k.attrs.integer("begin");
  const int64_t end = k.attrs.integer("end");
  std::vector<int64_t> rows, positions;
  const int64_t* id = ids.data_ptr<int64_t>();
  for (int64_t i = 0; i < ids.numel(); ++i) {
    if (id[i] < begin || id[i] >= end) continue;
    rows.push_back(id[i] - begin);
    positions.push_back(i);
  }
  set(k, at::tensor(rows, at::kLong));
  set(k, at::tensor(positions, at::kLong), 1);
}

}  // namespace

// The rows of a variable that input 1 names. Only they are copied.
extern constexpr OpDef kReadRows{
    .name = "ReadRows",
    .inputs = 2,
    .dtypes = kNumericTypes | kResourceType,
    .attrs = kDeclaredAttrs,
    .infer = infer_read_rows,
    .compute =
        [](Kernel& k) {
          const VariableCell& cell = cell_of(k.inputs[0]);
          const Tensor table = for_this_scope(cell.read());
          check_declared(cell, table, k.attrs.get<DType>("dtype"));
          require_rank_at_least("ReadRows", table.shape(), 1, "the variable's value");
          const at::Tensor& whole = aten(table);
          set(k, take_rows(whole, 0, checked_rows("ReadRows", in(k, 1), whole.size(0))));
        },
    .no_gradient_because = "a variable's gradient is collected where it is read",
    .traits = Trait::ReadsState | Trait::HostKernel,
};

// Of the ids in input 0, those from `begin` to before `end`, counted from `begin`; and where they
// were.
extern constexpr OpDef kRowsInRange{
    .name = "RowsInRange",
    .inputs = 1,
    .dtypes = kIntegerTypes,
    .attrs = {{"begin", AttrKind::Int}, {"end", AttrKind::Int}},
    .infer = [](const OpInputs&) -> Specs {
      const Shape some{Shape::kUnknownDim};
      return {{kInt64, some}, {kInt64, some}};
    },
    .compute = compute_rows_in_range,
    .no_gradient_because = "ids have no gradient",
    .traits = Trait::HostKernel,
};

namespace {

RowsInRange rows_in_range(const Tensor& ids, int64_t begin, int64_t end) {
  const std::vector<Tensor> both =
      apply_many(kRowsInRange, {&ids, 1}, {{"begin", begin}, {"end", end}}, {});
  return {both[0], both[1]};
}

}  // namespace

RowsInRange rows_of_part(const Tensor& ids, std::span<const int64_t> begins, size_t part) {
  constexpr int64_t kFar = int64_t{1} << 60;
  const bool last = part + 2 == begins.size();
  const int64_t end = last ? kFar : begins[part + 1];
  if (part > 0) return rows_in_range(ids, begins[part], end);
  RowsInRange found = rows_in_range(ids, -kFar, end);
  found.rows = found.rows + Tensor(-kFar);
  return found;
}

Tensor read_rows(const VariableHandle& variable, const Tensor& rows) {
  return apply(kReadRows, {variable.handle, rows},
               {{"dtype", variable.dtype}, {"shape", variable.shape}});
}

extern constexpr OpDef kScatterVariable{
    .name = "ScatterVariable",
    .inputs = 3,
    .dtypes = kNumericTypes | kResourceType,
    .attrs = AttrList{{"op", AttrKind::Int}} + kDeclaredAttrs,
    .infer = [](const OpInputs& inputs) -> Specs {
      require_integers(inputs, 1, "the indices");
      const auto dtype = inputs.attrs.get<DType>("dtype");
      if (inputs.dtype(2) != dtype) {
        raise(Code::InvalidArgument, "[{}] the variable is {}, but the values are {}", inputs.op,
              to_string(dtype), to_string(inputs.dtype(2)));
      }
      return infer_declared(inputs);
    },
    .compute =
        [](Kernel& k) {
          VariableCell& cell = cell_of(k.inputs[0]);
          const auto op = static_cast<ScatterOp>(k.attrs.integer("op"));
          const at::Tensor values = in(k, 2).contiguous();
          if (op == ScatterOp::Div) check_divisor("ScatterVariable", values);
          k.outputs[0] = cell.update([&](const Tensor& table) {
            check_declared(cell, table, k.attrs.get<DType>("dtype"));
            const RowUpdate update(cell.name(), aten(table), in(k, 1), values);
            scatter_rows(table.dtype(), op, update.width, update.rows, update.count,
                         values.data_ptr(), aten(table).data_ptr());
          });
        },
    .no_gradient_because = "it changes state",
    .traits = Trait::HasEffect | Trait::HostKernel,
};

Tensor scatter_variable(const VariableHandle& variable, ScatterOp op, const IndexedSlices& slices) {
  const bool chooses = op == ScatterOp::Update || op == ScatterOp::Min || op == ScatterOp::Max;
  if (!chooses) require_arithmetic(variable, "Scatter");
  const Tensor values = fit_to_variable(variable, slices.values, "Scatter");
  return apply(
      kScatterVariable, {variable.handle, slices.indices, values},
      {{"op", static_cast<int64_t>(op)}, {"dtype", variable.dtype}, {"shape", variable.shape}});
}

// Inputs: indices, values. Outputs: the same, each index once.
extern constexpr OpDef kMergeRows{
    .name = "MergeRows",
    .inputs = 2,
    .dtypes = kNumberTypes,
    .infer = [](const OpInputs& inputs) -> Specs {
      const Shape& indices = inputs.shape(0);
      const Shape& values = inputs.shape(1);
      require_integers(inputs, 0, "the indices");
      require_rank(inputs.op, indices, 1, "the indices");
      require_rank_at_least(inputs.op, values, 1, "the values");
      if (!values.has_rank()) return {{kInt64, {Shape::kUnknownDim}}, {inputs.dtype(1), values}};
      const int64_t count = indices.has_rank() ? indices[0] : Shape::kUnknownDim;
      require_compatible(inputs.op, values, values.with(0, count), "the values");
      return {{kInt64, {Shape::kUnknownDim}},
              {inputs.dtype(1), values.with(0, Shape::kUnknownDim)}};
    },
    .compute =
        [](Kernel& k) {
          UniqueRows rows(in(k, 0), in(k, 1));
          set(k, std::move(rows.indices));
          set(k, std::move(rows.values), 1);
        },
    .no_gradient_because = "its result changes in steps",
    .traits = Trait::HostKernel,
};

IndexedSlices merge_rows(const IndexedSlices& slices) {
  const Tensor inputs[] = {slices.indices, slices.values};
  const std::vector<Tensor> merged = apply_many(kMergeRows, inputs, {}, {});
  return {merged[1], merged[0], slices.dense_shape};
}

}  // namespace internal

using internal::raise;

Tensor IndexedSlices::to_dense(Site site) const {
  return scatter(indices, values, dense_shape, site);
}

Gradient::Gradient(Tensor dense) : dense_(std::move(dense)) {}

Gradient::Gradient(IndexedSlices slices)
    : slices_(std::make_shared<const IndexedSlices>(std::move(slices))) {}

const IndexedSlices& Gradient::slices() const {
  if (is_sparse()) return *slices_;
  raise(Code::FailedPrecondition, "[Gradient] this gradient is {}, not rows of a tensor",
        defined() ? "a tensor" : "undefined");
}

Tensor Gradient::dense(Site site) const {
  if (is_sparse()) return slices_->to_dense(site);
  if (dense_.defined()) return dense_;
  raise(Code::FailedPrecondition,
        "[Gradient] there is no gradient: the target does not depend on this source; ask for "
        "Unconnected::Zero to get zeros");
}

std::ostream& operator<<(std::ostream& out, const Gradient& gradient) {
  if (!gradient.defined()) return out << "None";
  if (!gradient.is_sparse()) return out << gradient.dense();
  const IndexedSlices& slices = gradient.slices();
  return out << "IndexedSlices(indices=" << slices.indices << ", values=" << slices.values
             << ", dense_shape=" << slices.dense_shape << ")";
}

}  // namespace cohort
