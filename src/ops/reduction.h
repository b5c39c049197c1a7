#pragma once

#include "cohort/ops.h"
#include "ops/kernel.h"

// What the reductions over axes have in common. Each carries three attributes: "axes" as the user
// gave them, "all" (then "axes" is empty) and "keep".
namespace cohort::internal {

inline constexpr AttrList kReductionAttrs{
    {"axes", AttrKind::Axes}, {"all", AttrKind::Bool}, {"keep", AttrKind::Bool}};

Attrs reduction_attrs(const Axes& axes, KeepDims keep);
Axes axes_of(const Attrs& attrs);
KeepDims keep_of(const Attrs& attrs);

// The axes that go, each in [0, rank), highest first.
std::vector<int64_t> reduced_axes(std::string_view op, const Attrs& attrs, int rank);
// Shape of the result of reducing a tensor of shape `x`.
Shape reduced_shape(std::string_view op, const Attrs& attrs, const Shape& x);
// Throws InvalidArgument when an axis that goes has size 0: there is nothing to choose from.
void require_elements(std::string_view op, const Attrs& attrs, const Shape& x);

Specs infer_reduction(const OpInputs& inputs);  // the dtype stays
// The same for reductions that calculate: bools are numbers of int64 then.
Specs infer_arithmetic_reduction(const OpInputs& inputs);

// `y`, which has the shape that the reduction `call` gave, with every element repeated over those
// it stands for: the gradient of a sum.
Tensor spread(const Tensor& y, const OpCall& call);
// The same, divided by how many those are: the gradient of a mean.
Tensor spread_mean(const Tensor& y, const OpCall& call);

}  // namespace cohort::internal
