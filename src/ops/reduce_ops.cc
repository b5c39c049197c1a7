// Reductions over axes (sum, mean, max, min, any, all, logsumexp, argmax, argmin) and cumsum.

#include "base/raise.h"
#include "cohort/ops.h"
#include "ops/kernel.h"
#include "ops/promotion.h"
#include "ops/reduction.h"

namespace cohort {
namespace internal {
namespace {

constexpr std::string_view kTruth = "its result is a truth value";

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
template <typename Reduce>
void axis_by_axis(Kernel& k, Reduce reduce) {
  at::Tensor x = in(k);
  for (const int64_t axis : axes_in(k)) x = reduce(x, axis, k.attrs.flag("keep"));
  set(k, std::move(x));
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

}  // namespace

extern constexpr OpDef kSum{
    .name = "Sum",
    .inputs = 1,
    .dtypes = kNumericTypes,
    .attrs = kReductionAttrs,
    .infer = infer_arithmetic_reduction,
    .compute =
        [](Kernel& k) {
          const at::Tensor& x = in(k);
          const at::ScalarType type = x.scalar_type() == at::kBool ? at::kLong : x.scalar_type();
          const std::vector<int64_t> axes = axes_in(k);
          set(k, axes.empty() ? x.to(type) : at::sum(x, axes, k.attrs.flag("keep"), type));
        },
    .gradient = [](const OpCall& call, Grads g) -> Gradients { return {spread(g[0], call)}; },
};

extern constexpr OpDef kMean{
    .name = "Mean",
    .inputs = 1,
    .dtypes = kFloatTypes,
    .attrs = kReductionAttrs,
    .infer = infer_reduction,
    .compute =
        [](Kernel& k) {
          over_axes(k, [](const at::Tensor& x, at::IntArrayRef axes, bool keep) {
            return at::mean(x, axes, keep);
          });
        },
    .gradient = [](const OpCall& call, Grads g) -> Gradients { return {spread_mean(g[0], call)}; },
};

extern constexpr OpDef kMax{
    .name = "Max",
    .inputs = 1,
    .dtypes = kNumericTypes,
    .attrs = kReductionAttrs,
    .infer = infer_extreme,
    .compute =
        [](Kernel& k) {
          require_elements("Max", k.attrs, k.inputs[0].shape());
          over_axes(k, [](const at::Tensor& x, at::IntArrayRef axes, bool keep) {
            return at::amax(x, axes, keep);
          });
        },
    .gradient = of_extremes,
};

extern constexpr OpDef kMin{
    .name = "Min",
    .inputs = 1,
    .dtypes = kNumericTypes,
    .attrs = kReductionAttrs,
    .infer = infer_extreme,
    .compute =
        [](Kernel& k) {
          require_elements("Min", k.attrs, k.inputs[0].shape());
          over_axes(k, [](const at::Tensor& x, at::IntArrayRef axes, bool keep) {
            return at::amin(x, axes, keep);
          });
        },
    .gradient = of_extremes,
};

extern constexpr OpDef kAny{
    .name = "Any",
    .inputs = 1,
    .dtypes = kBoolType,
    .attrs = kReductionAttrs,
    .infer = infer_reduction,
    .compute =
        [](Kernel& k) {
          axis_by_axis(k, [](const at::Tensor& x, int64_t axis, bool keep) {
            return at::any(x, axis, keep);
          });
        },
    .no_gradient_because = kTruth,
};

extern constexpr OpDef kAll{
    .name = "All",
    .inputs = 1,
    .dtypes = kBoolType,
    .attrs = kReductionAttrs,
    .infer = infer_reduction,
    .compute =
        [](Kernel& k) {
          axis_by_axis(k, [](const at::Tensor& x, int64_t axis, bool keep) {
            return at::all(x, axis, keep);
          });
        },
    .no_gradient_because = kTruth,
};

namespace {

Tensor reduce(const OpDef& op, const Tensor& x, const Axes& axes, KeepDims keep, Site site) {
  return apply(op, {x}, reduction_attrs(axes, keep), site);
}

}  // namespace

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
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      const Tensor share = exp(call.inputs[0] - spread(call.outputs[0], call));
      return {spread(g[0], call) * share};
    },
};

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
    .no_gradient_because = kPosition,
};

extern constexpr OpDef kArgMin{
    .name = "ArgMin",
    .inputs = 1,
    .dtypes = kNumericTypes,
    .attrs = {{"axis", AttrKind::Int}},
    .infer = infer_position,
    .compute = [](Kernel& k) { set(k, at::argmin(ordered(in(k)), k.attrs.integer("axis"))); },
    .no_gradient_because = kPosition,
};

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
  return internal::apply(internal::kLogSumExp, {x}, internal::reduction_attrs(axes, keep), site);
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
