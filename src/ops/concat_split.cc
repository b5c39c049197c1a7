// Tensors joined along an axis, and taken apart: concat, stack, split, unstack.

#include <fmt/ranges.h>

#include <algorithm>

#include "base/raise.h"
#include "cohort/ops.h"
#include "ops/all_ops.h"
#include "ops/elementwise.h"
#include "ops/kernel.h"

namespace cohort {
namespace internal {
namespace {

void require_parts(const OpInputs& inputs) {
  if (inputs.size() == 0) {
    raise(Code::InvalidArgument, "[{}] needs at least one tensor, got none", inputs.op);
  }
  require_same_dtype(inputs);
}

[[noreturn]] void raise_mismatch(std::string_view op, const Shape& a, const Shape& b) {
  raise(Code::InvalidArgument, "[{}] the parts do not fit together: shapes {} and {}", op,
        a.to_string(), b.to_string());
}

// The first shape whose rank is known; Shape::unknown() when none is.
Shape first_with_rank(const OpInputs& inputs, size_t first) {
  for (size_t i = first; i < inputs.size(); ++i) {
    if (inputs.shape(i).has_rank()) return inputs.shape(i);
  }
  return Shape::unknown();
}

// Shape of inputs `first` and after, joined along `axis`.
Shape concatenated(const OpInputs& inputs, size_t first) {
  Shape whole = first_with_rank(inputs, first);
  if (!whole.has_rank()) return whole;
  require_rank_at_least(inputs.op, whole, 1, "a part");
  const int axis = normalize_axis(inputs.op, inputs.attrs.integer("axis"), whole.rank());
  int64_t total = 0;
  for (size_t i = first; i < inputs.size(); ++i) {
    const Shape& part = inputs.shape(i);
    const bool known = part.has_rank() && part.rank() > axis && part[axis] >= 0;
    const Shape others =
        part.has_rank() && part.rank() > axis ? part.with(axis, Shape::kUnknownDim) : part;
    whole = whole.with(axis, Shape::kUnknownDim);
    if (!others.is_compatible_with(whole)) raise_mismatch(inputs.op, inputs.shape(first), part);
    whole = whole.merged_with(others);
    total = known && total >= 0 ? checked_add(inputs.op, total, part[axis]) : -1;
  }
  return whole.with(axis, total);
}

}  // namespace

extern constexpr OpDef kConcat{
    .name = "Concat",
    .inputs = {1, kAnyNumber},
    .dtypes = kAnyType,
    .attrs = {{"axis", AttrKind::Int}},
    .infer = [](const OpInputs& inputs) -> Specs {
      require_parts(inputs);
      const Shape shape = concatenated(inputs, 0);
      require_allocatable(inputs.op, shape, inputs.dtype(0));
      return {{inputs.dtype(0), shape}};
    },
    .compute =
        [](Kernel& k) {
          const Movables joined = movables(k.inputs);
          k.outputs[0] = from_moved(joined, at::cat(joined.parts, k.attrs.integer("axis")));
        },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      std::vector<Tensor> inputs{g[0]};
      inputs.insert(inputs.end(), call.inputs.begin(), call.inputs.end());
      const std::vector<Tensor> parts = apply_many(kConcatGrad, inputs, call.attrs, {});
      return {parts.begin(), parts.end()};
    },
    .traits = Trait::OneDType,
};

// Input 0 cut along `axis` into parts as long as the inputs after it.
extern constexpr OpDef kConcatGrad{
    .name = "ConcatGrad",
    .inputs = {2, kAnyNumber},
    .dtypes = kFloatTypes,
    .attrs = {{"axis", AttrKind::Int}},
    .infer = [](const OpInputs& inputs) -> Specs {
      require_compatible(inputs.op, inputs.shape(0), concatenated(inputs, 1), "the gradient");
      Specs parts;
      for (size_t i = 1; i < inputs.size(); ++i)
        parts.push_back({inputs.dtype(0), inputs.shape(i)});
      return parts;
    },
    .compute =
        [](Kernel& k) {
          const int64_t axis = k.attrs.integer("axis");
          int64_t begin = 0;
          for (size_t i = 1; i < k.inputs.size(); ++i) {
            const int64_t size = in(k, i).size(axis);
            set(k, in(k).narrow(axis, begin, size), i - 1);
            begin += size;
          }
        },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      Gradients result(call.inputs.size());
      result[0] = concat({g.begin(), g.end()}, static_cast<int>(call.attrs.integer("axis")));
      return result;
    },
    .traits = Trait::OneDType,
};

extern constexpr OpDef kStack{
    .name = "Stack",
    .inputs = {1, kAnyNumber},
    .dtypes = kAnyType,
    .attrs = {{"axis", AttrKind::Int}},
    .infer = [](const OpInputs& inputs) -> Specs {
      require_parts(inputs);
      Shape part = inputs.shape(0);
      for (size_t i = 1; i < inputs.size(); ++i) {
        const Shape& other = inputs.shape(i);
        if (!other.is_compatible_with(part)) raise_mismatch(inputs.op, inputs.shape(0), other);
        part = part.merged_with(other);
      }
      if (!part.has_rank()) return {{inputs.dtype(0), part}};
      require_possible_rank(inputs.op, part.rank() + 1);
      const int axis = normalize_axis(inputs.op, inputs.attrs.integer("axis"), part.rank() + 1);
      const Shape shape = part.with_inserted(axis, static_cast<int64_t>(inputs.size()));
      require_allocatable(inputs.op, shape, inputs.dtype(0));
      return {{inputs.dtype(0), shape}};
    },
    .compute =
        [](Kernel& k) {
          const Movables joined = movables(k.inputs);
          k.outputs[0] = from_moved(joined, at::stack(joined.parts, k.attrs.integer("axis")));
        },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      // Says how many parts there are: a graph may not know the gradient's shape.
      const auto count = static_cast<int64_t>(call.inputs.size());
      const std::vector<Tensor> parts = apply_many(
          kUnstack, {g.data(), 1}, {{"count", count}, {"axis", call.attrs.integer("axis")}}, {});
      return {parts.begin(), parts.end()};
    },
    .traits = Trait::OneDType,
};

namespace {

// The parts in the dtype in which all of them meet.
std::vector<Tensor> with_common_dtype(std::string_view op, const std::vector<Tensor>& parts,
                                      Site site) {
  Tensor common = parts[0];
  for (const Tensor& part : parts) common = promoted(op, common, part, site).a;
  std::vector<Tensor> converted;
  for (const Tensor& part : parts) converted.push_back(cast(part, common.dtype(), site));
  return converted;
}

Tensor join(const OpDef& op, const std::vector<Tensor>& parts, int axis, Site site) {
  bool mixed = false;
  for (const Tensor& part : parts) {
    mixed |= part.defined() && parts[0].defined() && body(part).dtype != body(parts[0]).dtype;
  }
  const Attrs attrs{{"axis", int64_t{axis}}};
  return mixed ? apply(op, with_common_dtype(op.name, parts, site), attrs, site)
               : apply(op, parts, attrs, site);
}

// Keeps a mistaken count from taking memory for outputs that hold nothing.
constexpr int64_t kMaxParts = 1 << 20;

void require_part_count(std::string_view op, int64_t count) {
  if (count >= 1 && count <= kMaxParts) return;
  raise(Code::InvalidArgument, "[{}] the number of parts must be 1 to {}, got {}", op, kMaxParts,
        count);
}

std::vector<int64_t> equal_sizes(int64_t size, int64_t count) {
  require_part_count("Split", count);
  if (size >= 0 && size % count != 0) {
    raise(Code::InvalidArgument,
          "[Split] a dimension of size {} cannot be split into {} equal parts", size, count);
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
          "[Unstack] the size of dimension {} of shape {} must be known, because it is the number "
          "of parts",
          axis, shape.to_string());
  }
  if (given >= 0 && size >= 0 && given != size) {
    raise(Code::InvalidArgument,
          "[Unstack] dimension {} of shape {} cannot be split into {} parts of size 1", axis,
          shape.to_string(), given);
  }
  const int64_t count = std::max(given, size);
  if (count > 0) require_part_count("Unstack", count);
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
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
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
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      return {stack({g.begin(), g.end()}, static_cast<int>(call.attrs.integer("axis")))};
    },
};

}  // namespace internal

Tensor concat(const std::vector<Tensor>& parts, int axis, Site site) {
  return internal::join(internal::kConcat, parts, axis, site);
}

Tensor stack(const std::vector<Tensor>& parts, int axis, Site site) {
  return internal::join(internal::kStack, parts, axis, site);
}

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
