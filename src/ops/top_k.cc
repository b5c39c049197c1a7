#include "base/raise.h"
#include "cohort/ops.h"
#include "ops/along_axis.h"
#include "ops/checks.h"
#include "ops/kernel.h"
#include "ops/order.h"

namespace cohort {
namespace internal {

extern constexpr OpDef kTopK{
    .name = "TopK",
    .inputs = 1,
    .dtypes = kNumericTypes,
    .attrs = {{"k", AttrKind::Int}},
    .infer = [](const OpInputs& inputs) -> Specs {
      const Shape& shape = inputs.shape(0);
      const int64_t k = inputs.attrs.integer("k");
      require_rank_at_least(inputs.op, shape, 1, "the tensor");
      require_size(inputs.op, k, "k");
      if (!shape.has_rank()) return {{inputs.dtype(0), shape}, {kInt64, shape}};
      if (shape[-1] >= 0 && k > shape[-1]) {
        raise(Code::InvalidArgument, "[TopK] k is {}, but the last dimension of shape {} has {}", k,
              shape.to_string(), shape[-1]);
      }
      const Shape result = shape.with(-1, k);
      return {{inputs.dtype(0), result}, {kInt64, result}};
    },
    .compute =
        [](Kernel& k) {
          Ordered ordered = order_rows(in(k), k.attrs.integer("k"), true);
          set(k, std::move(ordered.values), 0);
          set(k, std::move(ordered.indices), 1);
        },
    .gradient = [](const OpCall& call, std::span<const Tensor> g) -> Gradients {
      return {add_along(g[0], call.outputs[1], call.inputs[0], -1)};
    },
};

}  // namespace internal

TopK top_k(const Tensor& x, int64_t k, Site site) {
  const std::vector<Tensor> outputs =
      internal::apply_many(internal::kTopK, {&x, 1}, {{"k", k}}, site);
  return {outputs[0], outputs[1]};
}

}  // namespace cohort
