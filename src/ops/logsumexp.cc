#include "cohort/ops.h"
#include "ops/reduction.h"
#include "ops/widen.h"

namespace cohort {
namespace internal {

extern constexpr OpDef kLogSumExp{
    .name = "LogSumExp",
    .inputs = 1,
    .dtypes = kFloatTypes,
    .attrs = kReductionAttrs,
    .infer = infer_reduction,
    .compute =
        [](Kernel& k) {
          const at::Tensor& x = in(k);
          const auto axes = reduced_axes("LogSumExp", k.attrs, static_cast<int>(x.dim()));
          if (axes.empty()) return set(k, x);  // the kernel would take that for all axes
          set(k, narrowed(at::logsumexp(widened(x), axes, k.attrs.flag("keep")), x));
        },
    .gradient = [](const OpCall& call, std::span<const Tensor> g) -> Gradients {
      const Tensor share = exp(call.inputs[0] - spread(call.outputs[0], call));
      return {spread(g[0], call) * share};
    },
};

}  // namespace internal

Tensor logsumexp(const Tensor& x, const Axes& axes, KeepDims keep, Site site) {
  return internal::apply(internal::kLogSumExp, {x}, internal::reduction_attrs(axes, keep), site);
}

}  // namespace cohort
