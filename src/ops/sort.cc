#include "base/raise.h"
#include "cohort/ops.h"
#include "ops/along_axis.h"
#include "ops/kernel.h"
#include "ops/order.h"

namespace cohort {
namespace internal {

// Outputs the sorted values and where they were.
extern constexpr OpDef kSort{
    .name = "Sort",
    .inputs = 1,
    .dtypes = kNumericTypes,
    .attrs = {{"axis", AttrKind::Int}, {"descending", AttrKind::Bool}},
    .infer = [](const OpInputs& inputs) -> Specs {
      const Shape& shape = inputs.shape(0);
      if (shape.has_rank()) normalize_axis(inputs.op, inputs.attrs.integer("axis"), shape.rank());
      return {{inputs.dtype(0), shape}, {kInt64, shape}};
    },
    .compute =
        [](Kernel& k) {
          const int64_t axis = k.attrs.integer("axis");
          const at::Tensor rows = in(k).movedim(axis, -1);
          const Ordered ordered = order_rows(rows, rows.size(-1), k.attrs.flag("descending"));
          set(k, ordered.values.movedim(-1, axis), 0);
          set(k, ordered.indices.movedim(-1, axis), 1);
        },
    .gradient = [](const OpCall& call, std::span<const Tensor> g) -> Gradients {
      const auto axis = static_cast<int>(call.attrs.integer("axis"));
      return {add_along(g[0], call.outputs[1], call.inputs[0], axis)};
    },
};

namespace {

std::vector<Tensor> sorted(const Tensor& x, int axis, SortOrder order, Site site) {
  return apply_many(kSort, {&x, 1},
                    {{"axis", int64_t{axis}}, {"descending", order == SortOrder::Descending}},
                    site);
}

}  // namespace
}  // namespace internal

Tensor sort(const Tensor& x, int axis, SortOrder order, Site site) {
  return internal::sorted(x, axis, order, site)[0];
}

Tensor argsort(const Tensor& x, int axis, SortOrder order, Site site) {
  return internal::sorted(x, axis, order, site)[1];
}

}  // namespace cohort
