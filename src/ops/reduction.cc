#include "ops/reduction.h"

#include <algorithm>

#include "base/raise.h"

namespace cohort::internal {
namespace {

Specs infer_spread(const OpInputs& inputs) {
  const Shape expected = reduced_shape(inputs.op, inputs.attrs, inputs.shape(1));
  if (!expected.is_compatible_with(inputs.shape(0))) {
    raise(Code::InvalidArgument, "[{}] the first input must have shape {}, got {}", inputs.op,
          expected.to_string(), inputs.shape(0).to_string());
  }
  return {{inputs.dtype(0), inputs.shape(1)}};
}

void compute_spread(Kernel& k) {
  const at::IntArrayRef target = in(k, 1).sizes();
  std::vector<int64_t> kept(target.begin(), target.end());
  int64_t count = 1;
  for (const int64_t axis : reduced_axes("Spread", k.attrs, static_cast<int>(target.size()))) {
    count *= kept[axis];
    kept[axis] = 1;
  }
  at::Tensor y = in(k, 0).reshape(kept);  // adds dimensions of size 1: a view
  if (k.attrs.flag("mean")) y = at::div(y, at::Scalar(count));
  set(k, y.expand(target));
}

Attrs spread_attrs(const Attrs& reduction, bool mean) {
  return {{"axes", reduction.integers("axes")},
          {"all", reduction.flag("all")},
          {"keep", reduction.flag("keep")},
          {"mean", mean}};
}

}  // namespace

extern constexpr OpDef kSpread{
    .name = "Spread",
    .inputs = 2,
    .dtypes = kNumericTypes,
    .attrs = {{"axes", AttrKind::Axes},
              {"all", AttrKind::Bool},
              {"keep", AttrKind::Bool},
              {"mean", AttrKind::Bool}},
    .infer = infer_spread,
    .compute = compute_spread,
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      const Axes axes = axes_of(call.attrs);
      const KeepDims keep = keep_of(call.attrs);
      return {call.attrs.flag("mean") ? mean(g[0], axes, keep) : sum(g[0], axes, keep), {}};
    },
};

Attrs reduction_attrs(const Axes& axes, KeepDims keep) {
  return {{"axes", axes.axes}, {"all", axes.all}, {"keep", keep == KeepDims::Yes}};
}

Axes axes_of(const Attrs& attrs) {
  return attrs.flag("all") ? Axes() : Axes(attrs.integers("axes"));
}

KeepDims keep_of(const Attrs& attrs) { return attrs.flag("keep") ? KeepDims::Yes : KeepDims::No; }

std::vector<int64_t> reduced_axes(std::string_view op, const Attrs& attrs, int rank) {
  std::vector<int64_t> axes;
  if (attrs.flag("all")) {
    for (int64_t axis = 0; axis < rank; ++axis) axes.push_back(axis);
  } else {
    axes = normalize_axes(op, attrs.integers("axes"), rank);
  }
  std::sort(axes.rbegin(), axes.rend());
  return axes;
}

Shape reduced_shape(std::string_view op, const Attrs& attrs, const Shape& x) {
  const bool keep = attrs.flag("keep");
  if (attrs.flag("all") && !keep) return {};
  if (!x.has_rank()) return Shape::unknown();
  Shape shape = x;
  for (const int64_t axis : reduced_axes(op, attrs, x.rank())) {
    shape = keep ? shape.with(static_cast<int>(axis), 1) : shape.without(static_cast<int>(axis));
  }
  return shape;
}

void require_elements(std::string_view op, const Attrs& attrs, const Shape& x) {
  if (!x.has_rank() || std::find(x.begin(), x.end(), 0) == x.end()) return;
  for (const int64_t axis : reduced_axes(op, attrs, x.rank())) {
    if (x.begin()[axis] != 0) continue;
    raise(Code::InvalidArgument, "[{}] axis {} of shape {} has no elements to choose from", op,
          axis, x.to_string());
  }
}

Specs infer_reduction(const OpInputs& inputs) {
  return {{inputs.dtype(0), reduced_shape(inputs.op, inputs.attrs, inputs.shape(0))}};
}

Specs infer_arithmetic_reduction(const OpInputs& inputs) {
  Specs specs = infer_reduction(inputs);
  if (specs[0].dtype == kBool) specs[0].dtype = kInt64;
  return specs;
}

Tensor spread(const Tensor& y, const OpCall& call) {
  return apply(kSpread, {y, call.inputs[0]}, spread_attrs(call.attrs, false));
}

Tensor spread_mean(const Tensor& y, const OpCall& call) {
  return apply(kSpread, {y, call.inputs[0]}, spread_attrs(call.attrs, true));
}

}  // namespace cohort::internal
