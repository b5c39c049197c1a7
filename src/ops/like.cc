#include "ops/like.h"

#include <ATen/ExpandUtils.h>

#include "ops/kernel.h"

namespace cohort::internal {
namespace {

Specs infer_like(const OpInputs& inputs) { return {{inputs.dtype(0), inputs.shape(1)}}; }

bool same_known_shape(const Tensor& x, const Tensor& like) {
  const Shape& shape = body(x).shape;
  return shape == body(like).shape && shape.is_fully_known();
}

}  // namespace

extern constexpr OpDef kSumLike{
    .name = "SumLike",
    .inputs = 2,
    .dtypes = kNumericTypes,
    .infer = infer_like,
    .compute = [](Kernel& k) { set(k, at::sum_to(in(k, 0), in(k, 1).sizes())); },
    .gradient = [](const OpCall& call, std::span<const Tensor> g) -> Gradients {
      return {broadcast_like(g[0], call.inputs[0]), {}};
    },
};

extern constexpr OpDef kBroadcastLike{
    .name = "BroadcastLike",
    .inputs = 2,
    .dtypes = kNumericTypes,
    .infer = infer_like,
    .compute = [](Kernel& k) { set(k, in(k, 0).expand(in(k, 1).sizes())); },
    .gradient = [](const OpCall& call, std::span<const Tensor> g) -> Gradients {
      return {sum_like(g[0], call.inputs[0]), {}};
    },
};

extern constexpr OpDef kReshapeLike{
    .name = "ReshapeLike",
    .inputs = 2,
    .dtypes = kNumericTypes,
    .infer = infer_like,
    .compute = [](Kernel& k) { set(k, in(k, 0).reshape(in(k, 1).sizes())); },
    .gradient = [](const OpCall& call, std::span<const Tensor> g) -> Gradients {
      return {reshape_like(g[0], call.inputs[0]), {}};
    },
};

Tensor sum_like(const Tensor& x, const Tensor& like) {
  return same_known_shape(x, like) ? x : apply(kSumLike, {x, like});
}

Tensor broadcast_like(const Tensor& x, const Tensor& like) {
  return same_known_shape(x, like) ? x : apply(kBroadcastLike, {x, like});
}

Tensor reshape_like(const Tensor& x, const Tensor& like) {
  return same_known_shape(x, like) ? x : apply(kReshapeLike, {x, like});
}

}  // namespace cohort::internal
