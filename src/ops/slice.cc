// Every step-th element between two bounds, per dimension, as in Python.

#include <algorithm>
#include <limits>

#include "base/raise.h"
#include "cohort/ops.h"
#include "ops/all_ops.h"
#include "ops/checks.h"
#include "ops/kernel.h"
#include "ops/movable.h"

namespace cohort {
namespace internal {
namespace {

constexpr AttrList kSlicingAttrs{
    {"begin", AttrKind::Axes}, {"end", AttrKind::Axes}, {"step", AttrKind::Axes}};

constexpr int64_t kFirst = std::numeric_limits<int64_t>::min();  // clamps to the one end
constexpr int64_t kLast = std::numeric_limits<int64_t>::max();   // and to the other

// The elements begin, begin + step, ... (count of them) of one dimension.
struct Picked {
  int64_t begin;
  int64_t step;
  int64_t count;
};

Picked picked(const Attrs& attrs, size_t axis, int64_t size) {
  const int64_t step = attrs.integers("step")[axis];
  const int64_t low = step > 0 ? 0 : -1;
  const auto bound = [&](std::string_view name) {
    const int64_t given = attrs.integers(name)[axis];
    return std::clamp(given < 0 ? given + size : given, low, low + size);
  };
  const int64_t begin = bound("begin");
  const int64_t end = bound("end");
  const int64_t distance = step > 0 ? end - begin : begin - end;
  const int64_t stride = step > 0 ? step : -step;
  return {begin, step, distance > 0 ? (distance - 1) / stride + 1 : 0};
}

// What the ranges pick from `x`, each dimension in ascending order: a view. The dimensions that are
// to be reversed after that go to `reversed`.
at::Tensor picked_view(at::Tensor x, const Attrs& attrs, std::vector<int64_t>& reversed) {
  const size_t ranges = attrs.integers("begin").size();
  for (size_t i = 0; i < ranges; ++i) {
    const auto axis = static_cast<int64_t>(i);
    const Picked part = picked(attrs, i, x.size(axis));
    if (part.step == 1 && part.count == x.size(axis)) continue;
    if (part.step < 0 && part.count > 1) reversed.push_back(axis);
    // A step that is never taken may be too large for the kernel library's arithmetic.
    const int64_t stride = part.count > 1 ? std::abs(part.step) : 1;
    const int64_t reach = std::max<int64_t>(part.count - 1, 0) * stride;
    const int64_t begin = part.count == 0 ? 0 : part.begin - (part.step < 0 ? reach : 0);
    x = x.slice(axis, begin, part.count == 0 ? 0 : begin + reach + 1, stride);
  }
  return x;
}

Shape sliced(const OpInputs& inputs, const Shape& shape) {
  const std::vector<int64_t>& steps = inputs.attrs.integers("step");
  if (inputs.attrs.integers("begin").size() != steps.size() ||
      inputs.attrs.integers("end").size() != steps.size()) {
    raise(Code::InvalidArgument, "[{}] every range needs a begin, an end and a step", inputs.op);
  }
  if (std::find(steps.begin(), steps.end(), kFirst) != steps.end()) {
    raise(Code::InvalidArgument, "[{}] a step is too large", inputs.op);
  }
  if (std::find(steps.begin(), steps.end(), 0) != steps.end()) {
    raise(Code::InvalidArgument, "[{}] a step is 0", inputs.op);
  }
  if (!shape.has_rank()) return shape;
  if (static_cast<int>(steps.size()) > shape.rank()) {
    raise(Code::InvalidArgument, "[{}] {} ranges for a tensor of shape {}", inputs.op, steps.size(),
          shape.to_string());
  }
  Shape result = shape;
  for (size_t i = 0; i < steps.size(); ++i) {
    const auto axis = static_cast<int>(i);
    if (shape[axis] < 0) continue;
    result = result.with(axis, picked(inputs.attrs, i, shape[axis]).count);
  }
  return result;
}

}  // namespace

extern constexpr OpDef kSlice{
    .name = "Slice",
    .inputs = 1,
    .dtypes = kAnyType,
    .attrs = kSlicingAttrs,
    .infer = [](const OpInputs& inputs) -> Specs {
      return {{inputs.dtype(0), sliced(inputs, inputs.shape(0))}};
    },
    .compute =
        [](Kernel& k) {
          const Tensor& x = k.inputs[0];
          std::vector<int64_t> reversed;
          at::Tensor part = picked_view(movable(x), k.attrs, reversed);
          if (!reversed.empty()) part = part.flip(reversed);
          k.outputs[0] = from_moved(x, std::move(part));
        },
    .gradient = [](const OpCall& call, std::span<const Tensor> g) -> Gradients {
      return {apply(kSliceGrad, {g[0], call.inputs[0]}, call.attrs)};
    },
};

// Zeros like input 1, with input 0 where the ranges pick.
extern constexpr OpDef kSliceGrad{
    .name = "SliceGrad",
    .inputs = 2,
    .dtypes = kFloatTypes,
    .attrs = kSlicingAttrs,
    .infer = [](const OpInputs& inputs) -> Specs {
      require_compatible(inputs.op, inputs.shape(0), sliced(inputs, inputs.shape(1)),
                         "the gradient");
      return {{inputs.dtype(0), inputs.shape(1)}};
    },
    .compute =
        [](Kernel& k) {
          at::Tensor whole = at::zeros(in(k, 1).sizes(), in(k, 0).options());
          std::vector<int64_t> reversed;
          const at::Tensor part = picked_view(whole, k.attrs, reversed);
          part.copy_(reversed.empty() ? in(k, 0) : in(k, 0).flip(reversed));
          set(k, std::move(whole));
        },
    .gradient = [](const OpCall& call, std::span<const Tensor> g) -> Gradients {
      return {apply(kSlice, {g[0]}, call.attrs), {}};
    },
    .traits = Trait::OneDType,
};

}  // namespace internal

Tensor slice(const Tensor& x, const std::vector<Range>& ranges, Site site) {
  std::vector<int64_t> begins;
  std::vector<int64_t> ends;
  std::vector<int64_t> steps;
  for (const Range& range : ranges) {
    const bool forward = range.step > 0;
    begins.push_back(range.begin.value_or(forward ? internal::kFirst : internal::kLast));
    ends.push_back(range.end.value_or(forward ? internal::kLast : internal::kFirst));
    steps.push_back(std::max(range.step, -internal::kLast));  // so that -step exists
  }
  return internal::apply(
      internal::kSlice, {x},
      {{"begin", std::move(begins)}, {"end", std::move(ends)}, {"step", std::move(steps)}}, site);
}

}  // namespace cohort
