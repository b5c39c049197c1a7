#include "ops/merge_rows.h"

#include "ops/checks.h"
#include "ops/kernel.h"
#include "ops/row_update.h"

namespace cohort::internal {

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
    .gradient = nullptr,
    .no_gradient_because = "which rows are the same changes by jumps",
};

IndexedSlices merge_rows(const IndexedSlices& slices) {
  const Tensor inputs[] = {slices.indices, slices.values};
  const std::vector<Tensor> merged = apply_many(kMergeRows, inputs, {}, {});
  return {merged[1], merged[0], slices.dense_shape};
}

}  // namespace cohort::internal
