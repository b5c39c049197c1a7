#include "ops/along_axis.h"

#include "base/raise.h"
#include "ops/checks.h"
#include "ops/kernel.h"

namespace cohort::internal {
namespace {

// The rows are those of `whole`, and only their length may differ.
void require_rows(const OpInputs& inputs, const Shape& whole, const Shape& indices) {
  if (!whole.has_rank()) return;
  const int axis = normalize_axis(inputs.op, inputs.attrs.integer("axis"), whole.rank());
  require_compatible(inputs.op, indices, whole.with(axis, Shape::kUnknownDim), "the indices");
}

int axis_of(const OpCall& call) { return static_cast<int>(call.attrs.integer("axis")); }

}  // namespace

extern constexpr OpDef kTakeAlong{
    .name = "TakeAlong",
    .inputs = 2,
    .dtypes = kNumericTypes,
    .attrs = {{"axis", AttrKind::Int}},
    .infer = [](const OpInputs& inputs) -> Specs {
      require_integers(inputs, 1, "the indices");
      require_rows(inputs, inputs.shape(0), inputs.shape(1));
      return {{inputs.dtype(0), inputs.shape(1)}};
    },
    .compute =
        [](Kernel& k) {
          set(k, at::gather(in(k, 0), k.attrs.integer("axis"), in(k, 1).to(at::kLong)));
        },
    .gradient = [](const OpCall& call, std::span<const Tensor> g) -> Gradients {
      return {add_along(g[0], call.inputs[1], call.inputs[0], axis_of(call)), {}};
    },
};

extern constexpr OpDef kAddAlong{
    .name = "AddAlong",
    .inputs = 3,
    .dtypes = kNumberTypes,
    .attrs = {{"axis", AttrKind::Int}},
    .infer = [](const OpInputs& inputs) -> Specs {
      require_integers(inputs, 1, "the indices");
      require_compatible(inputs.op, inputs.shape(0), inputs.shape(1), "the values");
      require_rows(inputs, inputs.shape(2), inputs.shape(1));
      return {{inputs.dtype(0), inputs.shape(2)}};
    },
    .compute =
        [](Kernel& k) {
          at::Tensor sum = at::zeros(in(k, 2).sizes(), in(k, 0).options());
          set(k, sum.scatter_add_(k.attrs.integer("axis"), in(k, 1).to(at::kLong), in(k, 0)));
        },
    .gradient = [](const OpCall& call, std::span<const Tensor> g) -> Gradients {
      return {take_along(g[0], call.inputs[1], axis_of(call)), {}, {}};
    },
};

Tensor take_along(const Tensor& x, const Tensor& indices, int axis) {
  return apply(kTakeAlong, {x, indices}, {{"axis", int64_t{axis}}});
}

Tensor add_along(const Tensor& x, const Tensor& indices, const Tensor& like, int axis) {
  return apply(kAddAlong, {x, indices, like}, {{"axis", int64_t{axis}}});
}

}  // namespace cohort::internal
