// Gradients as values: tensors, and rows of tensors.

#include <ostream>

#include "base/raise.h"
#include "cohort/gradient.h"
#include "cohort/ops.h"
#include "ops/kernel.h"
#include "ops/table_rows.h"
#include "ops/variable_ops.h"

namespace cohort {
namespace internal {

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
    .no_gradient_because = "which rows are the same changes by jumps",
};

IndexedSlices merge_rows(const IndexedSlices& slices) {
  const Tensor inputs[] = {slices.indices, slices.values};
  const std::vector<Tensor> merged = apply_many(kMergeRows, inputs, {}, {});
  return {merged[1], merged[0], slices.dense_shape};
}

}  // namespace internal

using internal::raise;

Tensor IndexedSlices::to_dense() const { return scatter(indices, values, dense_shape); }

Gradient::Gradient(Tensor dense) : dense_(std::move(dense)) {}

Gradient::Gradient(IndexedSlices slices)
    : slices_(std::make_shared<const IndexedSlices>(std::move(slices))) {}

const IndexedSlices& Gradient::slices() const {
  if (is_sparse()) return *slices_;
  raise(Code::FailedPrecondition, "[Gradient] this gradient is {}, not rows of a tensor",
        defined() ? "a tensor" : "undefined");
}

Tensor Gradient::dense() const {
  if (is_sparse()) return slices_->to_dense();
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
