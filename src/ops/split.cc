// Cutting a tensor into parts along a dimension: split keeps the dimension, unstack drops it. The
// parts are views.

#include <fmt/ranges.h>

#include <algorithm>

#include "base/raise.h"
#include "cohort/ops.h"
#include "ops/kernel.h"
#include "ops/movable.h"

namespace cohort {
namespace internal {
namespace {

// Keeps a mistaken count from taking memory for outputs that hold nothing.
constexpr int64_t kMaxParts = 1 << 20;

void require_count(std::string_view op, int64_t count) {
  if (count >= 1 && count <= kMaxParts) return;
  raise(Code::InvalidArgument, "[{}] the number of parts must be 1 to {}, got {}", op, kMaxParts,
        count);
}

std::vector<int64_t> equal_sizes(int64_t size, int64_t count) {
  require_count("Split", count);
  if (size >= 0 && size % count != 0) {
    raise(Code::InvalidArgument, "[Split] a dimension of size {} has no {} equal parts", size,
          count);
  }
  return std::vector<int64_t>(static_cast<size_t>(count), size < 0 ? -1 : size / count);
}

[[noreturn]] void raise_unequal_sum(const std::vector<int64_t>& given, int64_t size) {
  raise(Code::InvalidArgument, "[Split] the sizes ({}) do not make up a dimension of size {}",
        fmt::join(given, ", "), size);
}

// `given` with its -1 replaced by what remains of `size`.
std::vector<int64_t> completed_sizes(const std::vector<int64_t>& given, int64_t size) {
  int64_t total = 0;
  bool overflow = false;
  for (const int64_t part : given) {
    if (part < -1) {
      raise(Code::InvalidArgument, "[Split] sizes are 0 or more, or -1 for the rest; got {}", part);
    }
    overflow |= __builtin_add_overflow(total, std::max<int64_t>(part, 0), &total);
  }
  const auto open = std::count(given.begin(), given.end(), -1);
  if (open > 1) raise(Code::InvalidArgument, "[Split] at most one size may be -1, got {}", open);
  if (overflow) raise_unequal_sum(given, size);
  if (size < 0) return given;
  if (open == 1 ? total > size : total != size) raise_unequal_sum(given, size);
  std::vector<int64_t> sizes = given;
  std::replace(sizes.begin(), sizes.end(), int64_t{-1}, size - total);
  return sizes;
}

// The parts' sizes along the axis; -1 where unknown. For equal parts the attribute holds their
// number.
std::vector<int64_t> part_sizes(const Attrs& attrs, int64_t size) {
  const std::vector<int64_t>& given = attrs.integers("sizes");
  return attrs.flag("equal") ? equal_sizes(size, given.at(0)) : completed_sizes(given, size);
}

// How many parts `shape` falls into along `axis`, with the count that was given, if any.
int64_t unstack_count(const Shape& shape, const Attrs& attrs, int axis) {
  const int64_t given = attrs.integer("count");
  const int64_t size = shape.has_rank() ? shape[axis] : Shape::kUnknownDim;
  if (given < 0 && size < 0) {
    raise(Code::InvalidArgument,
          "[Unstack] the size of dimension {} of shape {} must be known, to say how many parts "
          "there are",
          axis, shape.to_string());
  }
  if (given >= 0 && size >= 0 && given != size) {
    raise(Code::InvalidArgument, "[Unstack] dimension {} of shape {} does not fall into {} parts",
          axis, shape.to_string(), given);
  }
  const int64_t count = std::max(given, size);
  if (count > 0) require_count("Unstack", count);
  return count;
}

}  // namespace

extern constexpr OpDef kSplit{
    .name = "Split",
    .inputs = 1,
    .dtypes = kAnyType,
    .attrs = {{"sizes", AttrKind::Ints}, {"equal", AttrKind::Bool}, {"axis", AttrKind::Int}},
    .infer = [](const OpInputs& inputs) -> Specs {
      const Shape& shape = inputs.shape(0);
      Specs parts;
      if (!shape.has_rank()) {
        const size_t count = part_sizes(inputs.attrs, Shape::kUnknownDim).size();
        return Specs(count, {inputs.dtype(0), shape});
      }
      const int axis = normalize_axis(inputs.op, inputs.attrs.integer("axis"), shape.rank());
      for (const int64_t size : part_sizes(inputs.attrs, shape[axis])) {
        parts.push_back({inputs.dtype(0), shape.with(axis, size)});
      }
      return parts;
    },
    .compute =
        [](Kernel& k) {
          const Tensor& x = k.inputs[0];
          const at::Tensor value = movable(x);
          const int64_t axis = k.attrs.integer("axis");
          int64_t begin = 0;
          const std::vector<int64_t> sizes = part_sizes(k.attrs, value.size(axis));
          for (size_t i = 0; i < sizes.size(); ++i) {
            k.outputs[i] = from_moved(x, value.narrow(axis, begin, sizes[i]));
            begin += sizes[i];
          }
        },
    .gradient = [](const OpCall& call, std::span<const Tensor> g) -> Gradients {
      return {concat({g.begin(), g.end()}, static_cast<int>(call.attrs.integer("axis")))};
    },
};

extern constexpr OpDef kUnstack{
    .name = "Unstack",
    .inputs = 1,
    .dtypes = kAnyType,
    .attrs = {{"count", AttrKind::Int}, {"axis", AttrKind::Int}},
    .infer = [](const OpInputs& inputs) -> Specs {
      const Shape& shape = inputs.shape(0);
      const int64_t given = inputs.attrs.integer("axis");
      const int axis = shape.has_rank() ? normalize_axis(inputs.op, given, shape.rank())
                                        : static_cast<int>(given);
      const int64_t count = unstack_count(shape, inputs.attrs, axis);
      const Shape part = shape.has_rank() ? shape.without(axis) : shape;
      return Specs(static_cast<size_t>(count), {inputs.dtype(0), part});
    },
    .compute =
        [](Kernel& k) {
          const Tensor& x = k.inputs[0];
          const at::Tensor value = movable(x);
          for (size_t i = 0; i < k.outputs.size(); ++i) {
            const auto index = static_cast<int64_t>(i);
            k.outputs[i] = from_moved(x, value.select(k.attrs.integer("axis"), index));
          }
        },
    .gradient = [](const OpCall& call, std::span<const Tensor> g) -> Gradients {
      return {stack({g.begin(), g.end()}, static_cast<int>(call.attrs.integer("axis")))};
    },
};

}  // namespace internal

std::vector<Tensor> split(const Tensor& x, int64_t count, int axis, Site site) {
  return internal::apply_many(
      internal::kSplit, {&x, 1},
      {{"sizes", std::vector<int64_t>{count}}, {"equal", true}, {"axis", int64_t{axis}}}, site);
}

std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes, int axis, Site site) {
  return internal::apply_many(internal::kSplit, {&x, 1},
                              {{"sizes", sizes}, {"equal", false}, {"axis", int64_t{axis}}}, site);
}

std::vector<Tensor> unstack(const Tensor& x, int axis, Site site) {
  const Shape shape = x.shape();
  const int position = axis < 0 ? axis + shape.rank() : axis;
  const bool exists = shape.has_rank() && position >= 0 && position < shape.rank();
  return internal::apply_many(
      internal::kUnstack, {&x, 1},
      {{"count", exists ? shape[position] : int64_t{-1}}, {"axis", int64_t{axis}}}, site);
}

}  // namespace cohort
