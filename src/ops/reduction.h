#pragma once

#include "cohort/ops.h"
#include "ops/kernel.h"

// What the reductions over axes have in common. Each carries three attributes: "axes" as the user
// gave them, "all" (then "axes" is empty) and "keep".
namespace cohort::internal {

inline constexpr AttrList kReductionAttrs{
    {"axes", AttrKind::Axes}, {"all", AttrKind::Bool}, {"keep", AttrKind::Bool}};

// A reduction without a gradient gives truth values.
constexpr OpDef reduction_op(std::string_view name, DTypeSet dtypes, Infer infer, Compute compute,
                             GradientOf gradient) {
  return {.name = name,
          .inputs = 1,
          .dtypes = dtypes,
          .attrs = kReductionAttrs,
          .infer = infer,
          .compute = compute,
          .gradient = gradient,
          .no_gradient_because = gradient == nullptr ? "its result is a truth value" : ""};
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
