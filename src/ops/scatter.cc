#include "base/raise.h"
#include "cohort/ops.h"
#include "ops/checks.h"
#include "ops/kernel.h"
#include "ops/rows.h"

namespace cohort {
namespace internal {
namespace {

// What the values must be: the shape of the indices, then that of one row.
Shape values_shape(std::string_view op, const Shape& indices, const Shape& target) {
  if (!indices.has_rank()) return indices;
  require_possible_rank(op, indices.rank() + target.rank() - 1);
  Shape result = indices;
  for (int i = 1; i < target.rank(); ++i) result.push_back(target[i]);
  return result;
}

}  // namespace

extern constexpr OpDef kScatter{
    .name = "Scatter",
    .inputs = 2,
    .dtypes = kNumberTypes,
    .attrs = {{"shape", AttrKind::Shape}},
    .infer = [](const OpInputs& inputs) -> Specs {
      const auto& target = inputs.attrs.get<Shape>("shape");
      require_integers(inputs, 0, "the indices");
      require_creatable(inputs.op, target, inputs.dtype(1));
      require_rank_at_least(inputs.op, target, 1, "the result");
      require_compatible(inputs.op, inputs.shape(1),
                         values_shape(inputs.op, inputs.shape(0), target), "the values");
      return {{inputs.dtype(1), target}};
    },
    .compute =
        [](Kernel& k) {
          const auto& target = k.attrs.get<Shape>("shape");
          const at::Tensor rows = checked_rows("Scatter", in(k, 0), target[0]);
          set(k, add_rows(sizes(target), 0, rows, in(k, 1)));
        },
    .gradient = [](const OpCall& call, std::span<const Tensor> g) -> Gradients {
      return {{}, gather(g[0], call.inputs[0])};
    },
};

}  // namespace internal

Tensor scatter(const Tensor& indices, const Tensor& values, const Shape& shape, Site site) {
  return internal::apply(internal::kScatter, {indices, values}, {{"shape", shape}}, site);
}

}  // namespace cohort
