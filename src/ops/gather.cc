#include <algorithm>

#include "base/raise.h"
#include "cohort/ops.h"
#include "ops/all_ops.h"
#include "ops/checks.h"
#include "ops/kernel.h"
#include "ops/movable.h"
#include "ops/rows.h"

namespace cohort {
namespace internal {
namespace {

// Shape of x with dimension `axis` replaced by the shape of the indices.
Shape gathered(const OpInputs& inputs, const Shape& x, const Shape& indices) {
  if (!x.has_rank()) return x;
  const int axis = normalize_axis(inputs.op, inputs.attrs.integer("axis"), x.rank());
  if (!indices.has_rank()) return indices;
  require_possible_rank(inputs.op, x.rank() - 1 + indices.rank());
  Shape result;
  for (int i = 0; i < axis; ++i) result.push_back(x[i]);
  for (const int64_t size : indices) result.push_back(size);
  for (int i = axis + 1; i < x.rank(); ++i) result.push_back(x[i]);
  return result;
}

int64_t positive_axis(const Attrs& attrs, int64_t rank) {
  const int64_t axis = attrs.integer("axis");
  return axis < 0 ? axis + rank : axis;
}

// The gradient as rows of the table, whose shape is known and not empty.
IndexedSlices row_gradient(const Tensor& table, const Tensor& indices, const Tensor& g) {
  const Shape shape = table.shape();
  const bool counted = indices.shape().is_fully_known();
  return {.values = reshape(g, shape.with(0, counted ? indices.size() : -1)),
          .indices = reshape(cast(indices, kInt64), {-1}),
          .dense_shape = shape};
}

bool has_rows(const Shape& shape) {
  return shape.is_fully_known() && std::find(shape.begin(), shape.end(), 0) == shape.end();
}

}  // namespace

extern constexpr OpDef kGather{
    .name = "Gather",
    .inputs = 2,
    .dtypes = kAnyType,
    .attrs = {{"axis", AttrKind::Int}},
    .infer = [](const OpInputs& inputs) -> Specs {
      require_integers(inputs, 1, "the indices");
      const Shape shape = gathered(inputs, inputs.shape(0), inputs.shape(1));
      require_allocatable(inputs.op, shape, inputs.dtype(0));
      return {{inputs.dtype(0), shape}};
    },
    .compute =
        [](Kernel& k) {
          const at::Tensor x = movable(k.inputs[0]);
          const int64_t axis = positive_axis(k.attrs, x.dim());
          const at::Tensor rows = checked_rows("Gather", in(k, 1), x.size(axis));
          at::DimVector shape(x.sizes().begin(), x.sizes().begin() + axis);
          shape.append(in(k, 1).sizes().begin(), in(k, 1).sizes().end());
          shape.append(x.sizes().begin() + axis + 1, x.sizes().end());
          k.outputs[0] = from_moved(k.inputs[0], take_rows(x, axis, rows).view(shape));
        },
    .gradient = [](const OpCall& call, std::span<const Tensor> g) -> Gradients {
      const Tensor& x = call.inputs[0];
      const Tensor& indices = call.inputs[1];
      const Shape shape = x.shape();
      if (has_rows(shape) && positive_axis(call.attrs, shape.rank()) == 0) {
        return {row_gradient(x, indices, g[0]), {}};
      }
      return {apply(kGatherGrad, {g[0], indices, x}, call.attrs), {}};
    },
};

// Zeros like input 2 to which the rows of input 0 are added at input 1.
extern constexpr OpDef kGatherGrad{
    .name = "GatherGrad",
    .inputs = 3,
    .dtypes = kNumberTypes,
    .attrs = {{"axis", AttrKind::Int}},
    .infer = [](const OpInputs& inputs) -> Specs {
      require_integers(inputs, 1, "the indices");
      require_compatible(inputs.op, inputs.shape(0),
                         gathered(inputs, inputs.shape(2), inputs.shape(1)), "the gradient");
      return {{inputs.dtype(0), inputs.shape(2)}};
    },
    .compute =
        [](Kernel& k) {
          const at::Tensor& like = in(k, 2);
          const int64_t axis = positive_axis(k.attrs, like.dim());
          const at::Tensor rows = checked_rows("GatherGrad", in(k, 1), like.size(axis));
          set(k, add_rows(like.sizes(), axis, rows, in(k, 0)));
        },
    .gradient = [](const OpCall& call, std::span<const Tensor> g) -> Gradients {
      const auto axis = static_cast<int>(call.attrs.integer("axis"));
      return {gather(g[0], call.inputs[1], axis), {}, {}};
    },
};

}  // namespace internal

Tensor gather(const Tensor& x, const Tensor& indices, int axis, Site site) {
  return internal::apply(internal::kGather, {x, indices}, {{"axis", int64_t{axis}}}, site);
}

}  // namespace cohort
