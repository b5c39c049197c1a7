#include "cohort/ops.h"
#include "ops/kernel.h"
#include "ops/small.h"

namespace cohort {
namespace internal {
namespace {

// A few numbers, by a loop. What becomes of a float that no integer holds is up to the library.
bool cast_small(Kernel& k, DType dtype) {
  const bool narrows = is_floating(body(k.inputs[0]).dtype) && !is_floating(dtype);
  if (narrows || !kSmallTypes.has(dtype)) return false;
  const bool fits = is_small(dtype, body(k.inputs[0]).shape.num_elements());
  bool done = false;
  visit_small(dtype, [&]<typename To>(To) {
    done = fits && compute_small_unary(k, [](auto x) { return static_cast<To>(x); });
  });
  return done;
}

}  // namespace

extern constexpr OpDef kCast{
    .name = "Cast",
    .inputs = 1,
    .dtypes = kNumericTypes,
    .attrs = {{"dtype", AttrKind::DType}},
    .infer = [](const OpInputs& inputs) -> Specs {
      const auto dtype = inputs.attrs.get<DType>("dtype");
      to_aten(dtype);  // throws unless numeric
      return {{dtype, inputs.shape(0)}};
    },
    .compute =
        [](Kernel& k) {
          const auto dtype = k.attrs.get<DType>("dtype");
          if (!cast_small(k, dtype)) set(k, in(k).to(to_aten(dtype)));
        },
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
