// Joining tensors: along a dimension they have (concat), and along a new one (stack).

#include "base/raise.h"
#include "cohort/ops.h"
#include "ops/all_ops.h"
#include "ops/checks.h"
#include "ops/kernel.h"
#include "ops/movable.h"
#include "ops/promotion.h"

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
    .gradient = [](const OpCall& call, std::span<const Tensor> g) -> Gradients {
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
    .gradient = [](const OpCall& call, std::span<const Tensor> g) -> Gradients {
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
    .gradient = [](const OpCall& call, std::span<const Tensor> g) -> Gradients {
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
std::vector<Tensor> with_common_dtype(std::string_view op, const std::vector<Tensor>& parts) {
  Tensor meeting = parts[0];
  for (const Tensor& part : parts) meeting = promoted(op, meeting, part).a;
  std::vector<Tensor> converted;
  for (const Tensor& part : parts) converted.push_back(cast(part, meeting.dtype()));
  return converted;
}

Tensor join(const OpDef& op, const std::vector<Tensor>& parts, int axis, Site site) {
  bool mixed = false;
  for (const Tensor& part : parts) {
    mixed |= part.defined() && parts[0].defined() && body(part).dtype != body(parts[0]).dtype;
  }
  const Attrs attrs{{"axis", int64_t{axis}}};
  return mixed ? apply(op, with_common_dtype(op.name, parts), attrs, site)
               : apply(op, parts, attrs, site);
}

}  // namespace
}  // namespace internal

Tensor concat(const std::vector<Tensor>& parts, int axis, Site site) {
  return internal::join(internal::kConcat, parts, axis, site);
}

Tensor stack(const std::vector<Tensor>& parts, int axis, Site site) {
  return internal::join(internal::kStack, parts, axis, site);
}

}  // namespace cohort
