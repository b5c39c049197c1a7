#include "cohort/ops.h"
#include "ops/kernel.h"

namespace cohort {
namespace internal {

extern constexpr OpDef kCast{
    .name = "Cast",
    .dtypes = kNumericTypes,
    .infer = [](const OpInputs& inputs) -> Specs {
      const auto dtype = inputs.attrs.get<DType>("dtype");
      to_aten(dtype);  // throws unless numeric
      return {{dtype, inputs.shape(0)}};
    },
    .compute = [](Kernel& k) { set(k, in(k).to(to_aten(k.attrs.get<DType>("dtype")))); },
    .gradient = [](const OpCall& call, std::span<const Tensor> g) -> Gradients {
      const DType dtype = call.inputs[0].dtype();
      if (!is_floating(dtype)) return {{}};
      return {cast(g[0], dtype)};
    },
};

}  // namespace internal

Tensor cast(const Tensor& x, DType dtype, Site site) {
  if (x.defined() && x.dtype() == dtype && !internal::body(x).weak) return x;
  return internal::apply(internal::kCast, {x}, {{"dtype", dtype}}, site);
}

}  // namespace cohort
