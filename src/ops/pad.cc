#include "base/raise.h"
#include "cohort/ops.h"
#include "ops/checks.h"
#include "ops/kernel.h"

namespace cohort {
namespace internal {
namespace {

Shape padded(std::string_view op, const Shape& shape, const Attrs& attrs) {
  const std::vector<int64_t>& before = attrs.integers("before");
  const std::vector<int64_t>& after = attrs.integers("after");
  if (before.size() != after.size()) {
    raise(Code::InvalidArgument, "[{}] {} paddings before, but {} after", op, before.size(),
          after.size());
  }
  if (shape.has_rank() && static_cast<int>(before.size()) != shape.rank()) {
    raise(Code::InvalidArgument, "[{}] {} paddings for a tensor of shape {}", op, before.size(),
          shape.to_string());
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
    .gradient = [](const OpCall& call, std::span<const Tensor> g) -> Gradients {
      return {slice(g[0], inner_ranges(call.attrs))};
    },
};

}  // namespace internal

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
