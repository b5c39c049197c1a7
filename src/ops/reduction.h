#pragma once

#include "cohort/ops.h"
#include "ops/kernel.h"

// What the reductions over axes have in common. Each carries three attributes: "axes" as the user
// gave them, "all" (then "axes" is empty) and "keep".
namespace cohort::internal {

inline constexpr AttrList kReductionAttrs{
    {"axes", AttrKind::Axes}, {"all", AttrKind::Bool}, {"keep", AttrKind::Bool}};

constexpr OpDef reduction_op(std::string_view name, DTypeSet dtypes, Infer infer, Compute compute,
                             GradientOf gradient) {
  return {.name = name,
          .inputs = 1,
          .dtypes = dtypes,
          .attrs = kReductionAttrs,
          .infer = infer,
          .compute = compute,
          .gradient = gradient};
}
// A reduction without a gradient gives truth values. With UBSan, GCC 12 does not compare a function
// with null in a constant, so the absence of a gradient has an overload.
constexpr OpDef reduction_op(std::string_view name, DTypeSet dtypes, Infer infer, Compute compute,
                             std::nullptr_t) {
  OpDef op = reduction_op(name, dtypes, infer, compute, GradientOf(nullptr));
  op.no_gradient_because = "its result is a truth value";
  return op;
}

Attrs reduction_attrs(const Axes& axes, KeepDims keep);

// The axes that go, each in [0, rank), highest first.
std::vector<int64_t> reduced_axes(std::string_view op, const Attrs& attrs, int rank);
// Shape of the result of reducing a tensor of shape `x`.
Shape reduced_shape(std::string_view op, const Attrs& attrs, const Shape& x);

Specs infer_reduction(const OpInputs& inputs);  // the dtype stays
// The same for reductions that calculate: bools are numbers of int64 then.
Specs infer_arithmetic_reduction(const OpInputs& inputs);

// `y`, which has the shape that the reduction `call` gave, with every element repeated over those
// it stands for, and with `mean` divided by how many those are: the gradient of a sum or a mean.
Tensor spread(const Tensor& y, const OpCall& call, bool mean = false);

}  // namespace cohort::internal
