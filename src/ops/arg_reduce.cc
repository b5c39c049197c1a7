// Where along an axis the extreme is.

#include "base/raise.h"
#include "cohort/ops.h"
#include "ops/kernel.h"

namespace cohort {
namespace internal {
namespace {

constexpr std::string_view kPosition = "its result is a position";

Specs infer_position(const OpInputs& inputs) {
  const Shape& x = inputs.shape(0);
  if (!x.has_rank()) return {{kInt64, Shape::unknown()}};
  const int axis = normalize_axis(inputs.op, inputs.attrs.integer("axis"), x.rank());
  if (x[axis] == 0) {
    raise(Code::InvalidArgument, "[{}] axis {} of shape {} has no elements to choose from",
          inputs.op, axis, x.to_string());
  }
  return {{kInt64, x.without(axis)}};
}

// The kernel library has no bool kernel for this; the bytes of a bool order as it does.
at::Tensor ordered(const at::Tensor& x) {
  return x.scalar_type() == at::kBool ? x.view(at::kByte) : x;
}

}  // namespace

extern constexpr OpDef kArgMax{
    .name = "ArgMax",
    .inputs = 1,
    .dtypes = kNumericTypes,
    .attrs = {{"axis", AttrKind::Int}},
    .infer = infer_position,
    .compute = [](Kernel& k) { set(k, at::argmax(ordered(in(k)), k.attrs.integer("axis"))); },
    .gradient = nullptr,
    .no_gradient_because = kPosition,
};

extern constexpr OpDef kArgMin{
    .name = "ArgMin",
    .inputs = 1,
    .dtypes = kNumericTypes,
    .attrs = {{"axis", AttrKind::Int}},
    .infer = infer_position,
    .compute = [](Kernel& k) { set(k, at::argmin(ordered(in(k)), k.attrs.integer("axis"))); },
    .gradient = nullptr,
    .no_gradient_because = kPosition,
};

}  // namespace internal

Tensor argmax(const Tensor& x, int axis, Site site) {
  return internal::apply(internal::kArgMax, {x}, {{"axis", int64_t{axis}}}, site);
}
Tensor argmin(const Tensor& x, int axis, Site site) {
  return internal::apply(internal::kArgMin, {x}, {{"axis", int64_t{axis}}}, site);
}

}  // namespace cohort
