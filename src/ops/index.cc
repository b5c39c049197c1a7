// One part of the first dimension: Tensor::operator[].

#include "base/raise.h"
#include "cohort/ops.h"
#include "ops/all_ops.h"
#include "ops/checks.h"
#include "ops/kernel.h"
#include "ops/movable.h"

namespace cohort {
namespace internal {
namespace {

// The attribute as 0 <= index < size.
int64_t index_of(const Attrs& attrs, int64_t size) {
  const int64_t given = attrs.integer("index");
  const int64_t index = given < 0 ? given + size : given;
  if (index >= 0 && index < size) return index;
  raise(Code::InvalidArgument, "[Index] index {} is outside of a dimension of size {}", given,
        size);
}

Shape part_shape(const OpInputs& inputs, const Shape& shape) {
  require_rank_at_least(inputs.op, shape, 1, "the tensor");
  if (!shape.has_rank()) return shape;
  if (shape[0] >= 0) index_of(inputs.attrs, shape[0]);
  return shape.without(0);
}

}  // namespace

extern constexpr OpDef kIndex{
    .name = "Index",
    .inputs = 1,
    .dtypes = kAnyType,
    .attrs = {{"index", AttrKind::Int}},
    .infer = [](const OpInputs& inputs) -> Specs {
      return {{inputs.dtype(0), part_shape(inputs, inputs.shape(0))}};
    },
    .compute =
        [](Kernel& k) {
          const Tensor& x = k.inputs[0];
          const at::Tensor value = movable(x);
          k.outputs[0] = from_moved(x, value.select(0, index_of(k.attrs, value.size(0))));
        },
    .gradient = [](const OpCall& call, std::span<const Tensor> g) -> Gradients {
      return {apply(kIndexGrad, {g[0], call.inputs[0]}, call.attrs)};
    },
};

// Zeros like input 1, with input 0 as part `index`.
extern constexpr OpDef kIndexGrad{
    .name = "IndexGrad",
    .inputs = 2,
    .dtypes = kFloatTypes,
    .attrs = {{"index", AttrKind::Int}},
    .infer = [](const OpInputs& inputs) -> Specs {
      require_compatible(inputs.op, inputs.shape(0), part_shape(inputs, inputs.shape(1)),
                         "the gradient");
      return {{inputs.dtype(0), inputs.shape(1)}};
    },
    .compute =
        [](Kernel& k) {
          at::Tensor whole = at::zeros(in(k, 1).sizes(), in(k, 0).options());
          whole.select(0, index_of(k.attrs, whole.size(0))).copy_(in(k, 0));
          set(k, std::move(whole));
        },
    .gradient = [](const OpCall& call, std::span<const Tensor> g) -> Gradients {
      return {g[0][call.attrs.integer("index")], {}};
    },
    .traits = Trait::OneDType,
};

}  // namespace internal

Tensor Tensor::operator[](int64_t index) const {
  return internal::apply(internal::kIndex, {*this}, {{"index", index}});
}

}  // namespace cohort
