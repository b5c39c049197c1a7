// What a tensor looks like, as tensors. They do not depend on its values: no gradient flows.

#include <algorithm>

#include "cohort/ops.h"
#include "ops/kernel.h"

namespace cohort {
namespace internal {
namespace {

Specs infer_count(const OpInputs&) { return {{kInt64, {}}}; }
Gradients constant(const OpCall&, std::span<const Tensor>) { return {{}}; }

}  // namespace

extern constexpr OpDef kShape{
    .name = "Shape",
    .inputs = 1,
    .dtypes = kAnyType,
    .infer = [](const OpInputs& inputs) -> Specs {
      return {{kInt64, {int64_t{inputs.shape(0).rank()}}}};  // -1, unknown, without a rank
    },
    .compute =
        [](Kernel& k) {
          const Shape& shape = body(k.inputs[0]).shape;
          at::Tensor result = at::empty({shape.rank()}, at::kLong);
          std::copy(shape.begin(), shape.end(), result.data_ptr<int64_t>());
          set(k, std::move(result));
        },
    .gradient = constant,
    .traits = Trait::ShapeOnly,
};

extern constexpr OpDef kSize{
    .name = "Size",
    .inputs = 1,
    .dtypes = kAnyType,
    .infer = infer_count,
    .compute =
        [](Kernel& k) {
          set(k, at::scalar_tensor(body(k.inputs[0]).shape.num_elements(), at::kLong));
        },
    .gradient = constant,
    .traits = Trait::ShapeOnly,
};

extern constexpr OpDef kRank{
    .name = "Rank",
    .inputs = 1,
    .dtypes = kAnyType,
    .infer = infer_count,
    .compute =
        [](Kernel& k) { set(k, at::scalar_tensor(body(k.inputs[0]).shape.rank(), at::kLong)); },
    .gradient = constant,
    .traits = Trait::ShapeOnly,
};

}  // namespace internal

Tensor shape(const Tensor& x, Site site) {
  return internal::apply(internal::kShape, {x}, {}, site);
}
Tensor size(const Tensor& x, Site site) { return internal::apply(internal::kSize, {x}, {}, site); }
Tensor rank(const Tensor& x, Site site) { return internal::apply(internal::kRank, {x}, {}, site); }

}  // namespace cohort
