#include "cohort/ops.h"
#include "ops/kernel.h"
#include "ops/widen.h"

namespace cohort {
namespace internal {
namespace {

// Sums from the front, or with `reverse` from the back.
Attrs cumsum_attrs(int64_t axis, bool reverse) { return {{"axis", axis}, {"reverse", reverse}}; }

}  // namespace

extern constexpr OpDef kCumSum{
    .name = "CumSum",
    .inputs = 1,
    .dtypes = kNumericTypes,
    .attrs = {{"axis", AttrKind::Int}, {"reverse", AttrKind::Bool}},
    .infer = [](const OpInputs& inputs) -> Specs {
      const Shape& x = inputs.shape(0);
      if (x.has_rank()) normalize_axis(inputs.op, inputs.attrs.integer("axis"), x.rank());
      return {{inputs.dtype(0) == kBool ? kInt64 : inputs.dtype(0), x}};
    },
    .compute =
        [](Kernel& k) {
          const at::Tensor x =
              in(k).scalar_type() == at::kBool ? in(k).to(at::kLong) : widened(in(k));
          const int64_t axis = k.attrs.integer("axis");
          const bool reverse = k.attrs.flag("reverse");
          at::Tensor sums = at::cumsum(reverse ? at::flip(x, axis) : x, axis, x.scalar_type());
          set(k, narrowed(reverse ? at::flip(sums, axis) : std::move(sums), in(k)));
        },
    .gradient = [](const OpCall& call, std::span<const Tensor> g) -> Gradients {
      const Attrs back = cumsum_attrs(call.attrs.integer("axis"), !call.attrs.flag("reverse"));
      return {apply(*call.op, {g[0]}, back)};
    },
};

}  // namespace internal

Tensor cumsum(const Tensor& x, int axis, Site site) {
  return internal::apply(internal::kCumSum, {x}, internal::cumsum_attrs(axis, false), site);
}

}  // namespace cohort
