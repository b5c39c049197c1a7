#include "base/raise.h"
#include "cohort/ops.h"
#include "ops/kernel.h"
#include "ops/like.h"
#include "ops/promotion.h"

namespace cohort {
namespace internal {

extern constexpr OpDef kWhere{
    .name = "Where",
    .inputs = 3,
    .dtypes = kNumericTypes,
    .infer = [](const OpInputs& inputs) -> Specs {
      if (inputs.dtype(0) != kBool) {
        raise(Code::InvalidArgument, "[Where] the condition must be bool, got {}",
              to_string(inputs.dtype(0)));
      }
      const Shape values = broadcast_shapes(inputs.op, inputs.shape(1), inputs.shape(2));
      return {{inputs.dtype(1), broadcast_shapes(inputs.op, inputs.shape(0), values)}};
    },
    .compute = [](Kernel& k) { set(k, at::where(in(k, 0), in(k, 1), in(k, 2))); },
    .gradient = [](const OpCall& call, std::span<const Tensor> g) -> Gradients {
      const Tensor none = zeros_like(g[0]);
      const Tensor& condition = call.inputs[0];
      return {{},
              sum_like(where(condition, g[0], none), call.inputs[1]),
              sum_like(where(condition, none, g[0]), call.inputs[2])};
    },
};

}  // namespace internal

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b, Site site) {
  const internal::Pair pair = internal::promoted("Where", a, b);
  return internal::apply(internal::kWhere, {condition, pair.a, pair.b}, {}, site);
}

}  // namespace cohort
