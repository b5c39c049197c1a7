// Reductions over axes (sum, mean, max, min, any, all, logsumexp, argmax, argmin) and cumsum.

#include "ops/reduction.h"

#include <algorithm>

#include "base/raise.h"
#include "ops/elementwise.h"

namespace cohort {
namespace internal {

Attrs reduction_attrs(const Axes& axes, KeepDims keep) {
  return {{"axes", axes.axes}, {"all", axes.all}, {"keep", keep == KeepDims::Yes}};
}

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

Specs infer_reduction(const OpInputs& inputs) {
  return {{inputs.dtype(0), reduced_shape(inputs.op, inputs.attrs, inputs.shape(0))}};
}

Specs infer_arithmetic_reduction(const OpInputs& inputs) {
  Specs specs = infer_reduction(inputs);
  if (specs[0].dtype == kBool) specs[0].dtype = kInt64;
  return specs;
}

namespace {

Axes axes_of(const Attrs& attrs) {
  return attrs.flag("all") ? Axes() : Axes(attrs.integers("axes"));
}

KeepDims keep_of(const Attrs& attrs) { return attrs.flag("keep") ? KeepDims::Yes : KeepDims::No; }

Specs infer_spread(const OpInputs& inputs) {
  require_compatible(inputs.op, inputs.shape(0),
                     reduced_shape(inputs.op, inputs.attrs, inputs.shape(1)), "the first input");
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

}  // namespace

// (y, what was reduced to it)
extern constexpr OpDef kSpread{
    .name = "Spread",
    .inputs = 2,
    .dtypes = kNumericTypes,
    .attrs = kReductionAttrs + AttrList{{"mean", AttrKind::Bool}},
    .infer = infer_spread,
    .compute = compute_spread,
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      const Axes axes = axes_of(call.attrs);
      const KeepDims keep = keep_of(call.attrs);
      return {call.attrs.flag("mean") ? mean(g[0], axes, keep) : sum(g[0], axes, keep), {}};
    },
};

Tensor spread(const Tensor& y, const OpCall& call, bool mean) {
  Attrs attrs = call.attrs;
  attrs.set("mean", mean);
  return apply(kSpread, {y, call.inputs[0]}, std::move(attrs));
}

namespace {

std::vector<int64_t> axes_in(const Kernel& k) {
  return reduced_axes("Reduction", k.attrs, static_cast<int>(in(k).dim()));
}

// Runs `reduce(x, axes, keep)`. The kernel library takes "no axes" for "all axes"; here nothing is
// reduced then.
template <typename Reduce>
void over_axes(Kernel& k, Reduce reduce) {
  const std::vector<int64_t> axes = axes_in(k);
  set(k, axes.empty() ? in(k) : reduce(in(k), at::IntArrayRef(axes), k.attrs.flag("keep")));
}

// The same for kernels that take one axis at a time.
void axis_by_axis(Kernel& k, at::Tensor (*reduce)(const at::Tensor&, int64_t axis, bool keep)) {
  at::Tensor x = in(k);
  for (const int64_t axis : axes_in(k)) x = reduce(x, axis, k.attrs.flag("keep"));
  set(k, std::move(x));
}

// Throws InvalidArgument when an axis that goes has size 0: there is nothing to choose from.
void require_elements(std::string_view op, const Attrs& attrs, const Shape& x) {
  if (!x.has_rank() || std::find(x.begin(), x.end(), 0) == x.end()) return;
  for (const int64_t axis : reduced_axes(op, attrs, x.rank())) {
    if (x.begin()[axis] != 0) continue;
    raise(Code::InvalidArgument, "[{}] axis {} of shape {} has no elements to choose from", op,
          axis, x.to_string());
  }
}

// Every element that equals the extreme gets the same share.
Gradients of_extremes(const OpCall& call, Grads g) {
  const Tensor& x = call.inputs[0];
  const Tensor holds = cast(equal(x, spread(call.outputs[0], call)), g[0].dtype());
  const Tensor holders = sum(holds, axes_of(call.attrs), keep_of(call.attrs));
  return {spread(g[0] / holders, call) * holds};
}

Specs infer_extreme(const OpInputs& inputs) {
  require_elements(inputs.op, inputs.attrs, inputs.shape(0));
  return infer_reduction(inputs);
}

using Extreme = at::Tensor (*)(const at::Tensor&, at::IntArrayRef axes, bool keep);
void compute_extreme(Kernel& k, std::string_view op, Extreme extreme) {
  require_elements(op, k.attrs, k.inputs[0].shape());
  over_axes(k, extreme);
}

// The largest or smallest elements.
constexpr OpDef extreme_op(std::string_view name, Compute compute) {
  return reduction_op(name, kNumericTypes, infer_extreme, compute, of_extremes);
}

}  // namespace

extern constexpr OpDef kSum = reduction_op(
    "Sum", kNumericTypes, infer_arithmetic_reduction,
    [](Kernel& k) {
      const at::Tensor& x = in(k);
      const at::ScalarType type = x.scalar_type() == at::kBool ? at::kLong : x.scalar_type();
      const std::vector<int64_t> axes = axes_in(k);
      set(k, axes.empty() ? x.to(type) : at::sum(x, axes, k.attrs.flag("keep"), type));
    },
    [](const OpCall& call, Grads g) -> Gradients { return {spread(g[0], call)}; });

extern constexpr OpDef kMean = reduction_op(
    "Mean", kFloatTypes, infer_reduction,
    [](Kernel& k) {
      over_axes(k, [](const at::Tensor& x, at::IntArrayRef axes, bool keep) {
        return at::mean(x, axes, keep);
      });
    },
    [](const OpCall& call, Grads g) -> Gradients { return {spread(g[0], call, true)}; });

extern constexpr OpDef kMax =
    extreme_op("Max", [](Kernel& k) { compute_extreme(k, "Max", at::amax); });

extern constexpr OpDef kMin =
    extreme_op("Min", [](Kernel& k) { compute_extreme(k, "Min", at::amin); });

extern constexpr OpDef kAny = reduction_op(
    "Any", kBoolType, infer_reduction, [](Kernel& k) { axis_by_axis(k, at::any); }, nullptr);

extern constexpr OpDef kAll = reduction_op(
    "All", kBoolType, infer_reduction, [](Kernel& k) { axis_by_axis(k, at::all); }, nullptr);

extern constexpr OpDef kLogSumExp = reduction_op(
    "LogSumExp", kFloatTypes, infer_reduction,
    [](Kernel& k) {
      const at::Tensor& x = in(k);
      const auto axes = reduced_axes("LogSumExp", k.attrs, static_cast<int>(x.dim()));
      if (axes.empty()) return set(k, x);  // the kernel would take that for all axes
      set(k, narrowed(at::logsumexp(widened(x), axes, k.attrs.flag("keep")), x));
    },
    [](const OpCall& call, Grads g) -> Gradients {
      const Tensor share = exp(call.inputs[0] - spread(call.outputs[0], call));
      return {spread(g[0], call) * share};
    });

namespace {

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

constexpr OpDef position_op(std::string_view name, Compute compute) {
  return {.name = name,
          .inputs = 1,
          .dtypes = kNumericTypes,
          .attrs = {{"axis", AttrKind::Int}},
          .infer = infer_position,
          .compute = compute,
          .no_gradient_because = "its result is a position"};
}

}  // namespace

extern constexpr OpDef kArgMax = position_op(
    "ArgMax", [](Kernel& k) { set(k, at::argmax(ordered(in(k)), k.attrs.integer("axis"))); });

extern constexpr OpDef kArgMin = position_op(
    "ArgMin", [](Kernel& k) { set(k, at::argmin(ordered(in(k)), k.attrs.integer("axis"))); });

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
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      const Attrs back = cumsum_attrs(call.attrs.integer("axis"), !call.attrs.flag("reverse"));
      return {apply(*call.op, {g[0]}, back)};
    },
};

namespace {

Tensor reduce(const OpDef& op, const Tensor& x, const Axes& axes, KeepDims keep, Site site) {
  return apply(op, {x}, reduction_attrs(axes, keep), site);
}

}  // namespace
}  // namespace internal

using internal::reduce;

Tensor sum(const Tensor& x, const Axes& axes, KeepDims keep, Site site) {
  return reduce(internal::kSum, x, axes, keep, site);
}
Tensor mean(const Tensor& x, const Axes& axes, KeepDims keep, Site site) {
  const bool divides = !x.defined() || !is_numeric(x.dtype()) || is_floating(x.dtype());
  const Tensor dividing = divides ? x : cast(x, internal::division_dtype(x.dtype()), site);
  return reduce(internal::kMean, dividing, axes, keep, site);
}
Tensor max(const Tensor& x, const Axes& axes, KeepDims keep, Site site) {
  return reduce(internal::kMax, x, axes, keep, site);
}
Tensor min(const Tensor& x, const Axes& axes, KeepDims keep, Site site) {
  return reduce(internal::kMin, x, axes, keep, site);
}
Tensor any(const Tensor& x, const Axes& axes, KeepDims keep, Site site) {
  return reduce(internal::kAny, x, axes, keep, site);
}
Tensor all(const Tensor& x, const Axes& axes, KeepDims keep, Site site) {
  return reduce(internal::kAll, x, axes, keep, site);
}

Tensor logsumexp(const Tensor& x, const Axes& axes, KeepDims keep, Site site) {
  return reduce(internal::kLogSumExp, x, axes, keep, site);
}

Tensor argmax(const Tensor& x, int axis, Site site) {
  return internal::apply(internal::kArgMax, {x}, {{"axis", int64_t{axis}}}, site);
}
Tensor argmin(const Tensor& x, int axis, Site site) {
  return internal::apply(internal::kArgMin, {x}, {{"axis", int64_t{axis}}}, site);
}

Tensor cumsum(const Tensor& x, int axis, Site site) {
  return internal::apply(internal::kCumSum, {x}, internal::cumsum_attrs(axis, false), site);
}

}  // namespace cohort
