// Parts of a tensor: slice, operator[], and pad, which makes a tensor a part of a larger one.

#include <algorithm>
#include <limits>

#include "base/raise.h"
#include "cohort/ops.h"
#include "ops/all_ops.h"
#include "ops/kernel.h"

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
    raise(Code::InvalidArgument, "[{}] a step must not be 0", inputs.op);
  }
  if (!shape.has_rank()) return shape;
  if (static_cast<int>(steps.size()) > shape.rank()) {
    raise(Code::InvalidArgument,
          "[{}] got {} ranges for a tensor of shape {}; give at most one per dimension", inputs.op,
          steps.size(), shape.to_string());
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
    .gradient = by_input<kSliceGrad>,
};

// Zeros like input 1, with input 0 where the ranges pick.
extern constexpr OpDef kSliceGrad = input_gradient_op<sliced>(
    "SliceGrad", kSlicingAttrs,
    [](Kernel& k) {
      at::Tensor whole = at::zeros(in(k, 1).sizes(), in(k, 0).options());
      std::vector<int64_t> reversed;
      const at::Tensor part = picked_view(whole, k.attrs, reversed);
      part.copy_(reversed.empty() ? in(k, 0) : in(k, 0).flip(reversed));
      set(k, std::move(whole));
    },
    [](const OpCall& call, Grads g) -> Gradients {
      return {apply(kSlice, {g[0]}, call.attrs), {}};
    });

namespace {

// The attribute as 0 <= index < size.
int64_t index_of(const Attrs& attrs, int64_t size) {
  const int64_t given = attrs.integer("index");
  const int64_t index = given < 0 ? given + size : given;
  if (index >= 0 && index < size) return index;
  raise(Code::InvalidArgument, "[Index] index {} is outside of a dimension of size {}", given,
        size);
}

Shape part_shape(const OpInputs& inputs, const Shape& shape) {
  require_rank_at_least(inputs.op, shape, 1, "the tensor");
  if (!shape.has_rank()) return shape;
  if (shape[0] >= 0) index_of(inputs.attrs, shape[0]);
  return shape.without(0);
}

}  // namespace

extern constexpr OpDef kIndex{
    .name = "Index",
    .inputs = 1,
    .dtypes = kAnyType,
    .attrs = {{"index", AttrKind::Int}},
    .infer = [](const OpInputs& inputs) -> Specs {
      return {{inputs.dtype(0), part_shape(inputs, inputs.shape(0))}};
    },
    .compute =
        [](Kernel& k) {
          const Tensor& x = k.inputs[0];
          const at::Tensor value = movable(x);
          k.outputs[0] = from_moved(x, value.select(0, index_of(k.attrs, value.size(0))));
        },
    .gradient = by_input<kIndexGrad>,
};

// Zeros like input 1, with input 0 as part `index`.
extern constexpr OpDef kIndexGrad = input_gradient_op<part_shape>(
    "IndexGrad", {{"index", AttrKind::Int}},
    [](Kernel& k) {
      at::Tensor whole = at::zeros(in(k, 1).sizes(), in(k, 0).options());
      whole.select(0, index_of(k.attrs, whole.size(0))).copy_(in(k, 0));
      set(k, std::move(whole));
    },
    [](const OpCall& call, Grads g) -> Gradients {
      return {g[0][call.attrs.integer("index")], {}};
    });

namespace {

Shape padded(std::string_view op, const Shape& shape, const Attrs& attrs) {
  const std::vector<int64_t>& before = attrs.integers("before");
  const std::vector<int64_t>& after = attrs.integers("after");
  if (before.size() != after.size()) {
    raise(Code::InvalidArgument,
          "[{}] before and after must have equally many paddings, got {} and {}", op, before.size(),
          after.size());
  }
  if (shape.has_rank() && static_cast<int>(before.size()) != shape.rank()) {
    raise(Code::InvalidArgument, "[{}] needs one padding per dimension, got {} for shape {}", op,
          before.size(), shape.to_string());
  }
  require_possible_rank(op, static_cast<int>(before.size()));
  Shape result;
  for (size_t i = 0; i < before.size(); ++i) {
    require_size(op, before[i], "a padding");
    require_size(op, after[i], "a padding");
    const int64_t added = checked_add(op, before[i], after[i]);
    const int64_t size = shape.has_rank() ? shape[static_cast<int>(i)] : Shape::kUnknownDim;
    result.push_back(size < 0 ? size : checked_add(op, size, added));
  }
  return result;
}

// What undoes the padding.
std::vector<Range> inner_ranges(const Attrs& attrs) {
  const std::vector<int64_t>& before = attrs.integers("before");
  const std::vector<int64_t>& after = attrs.integers("after");
  std::vector<Range> ranges;
  for (size_t i = 0; i < before.size(); ++i) {
    Range range{.begin = before[i]};
    if (after[i] > 0) range.end = -after[i];
    ranges.push_back(range);
  }
  return ranges;
}

}  // namespace

extern constexpr OpDef kPad{
    .name = "Pad",
    .inputs = 1,
    .dtypes = kNumericTypes,
    .attrs = {{"before", AttrKind::Axes}, {"after", AttrKind::Axes}, {"value", AttrKind::Float}},
    .infer = [](const OpInputs& inputs) -> Specs {
      const Shape shape = padded(inputs.op, inputs.shape(0), inputs.attrs);
      if (shape.is_fully_known()) require_creatable(inputs.op, shape, inputs.dtype(0));
      require_representable(inputs.op, inputs.attrs.number("value"), inputs.dtype(0));
      return {{inputs.dtype(0), shape}};
    },
    .compute =
        [](Kernel& k) {
          const at::Tensor& x = in(k);
          const Shape shape = padded("Pad", body(k.inputs[0]).shape, k.attrs);
          at::Tensor whole = at::full(sizes(shape), k.attrs.number("value"), x.options());
          at::Tensor inner = whole;
          for (int64_t axis = 0; axis < x.dim(); ++axis) {
            const int64_t before = k.attrs.integers("before")[static_cast<size_t>(axis)];
            inner = inner.narrow(axis, before, x.size(axis));
          }
          inner.copy_(x);
          set(k, std::move(whole));
        },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      return {slice(g[0], inner_ranges(call.attrs))};
    },
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

Tensor Tensor::operator[](internal::Subscript index) const {
  return internal::apply(internal::kIndex, {*this}, {{"index", index.position()}}, index.site());
}

Tensor pad(const Tensor& x, const std::vector<Padding>& paddings, double value, Site site) {
  std::vector<int64_t> before;
  std::vector<int64_t> after;
  for (const Padding& padding : paddings) {
    before.push_back(padding.before);
    after.push_back(padding.after);
  }
  return internal::apply(
      internal::kPad, {x},
      {{"before", std::move(before)}, {"after", std::move(after)}, {"value", value}}, site);
}

}  // namespace cohort
