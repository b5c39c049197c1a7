// Shapes: reshape, expand_dims, squeeze, transpose, and the shape of a tensor as a tensor.

#include <algorithm>
#include <numeric>

#include "base/raise.h"
#include "cohort/ops.h"
#include "ops/kernel.h"

namespace cohort {
namespace internal {
namespace {

Gradients restore_shape(const OpCall& call, Grads g) {
  return {reshape_like(g[0], call.inputs[0])};
}

[[noreturn]] void raise_unequal(const Shape& shape, const Shape& target) {
  raise(Code::InvalidArgument, "[Reshape] the elements of shape {} do not make up shape {}",
        shape.to_string(), target.to_string());
}

// `target` with its -1 replaced by what remains of `shape`, where that is known.
Shape resolved(const Shape& shape, const Shape& target) {
  const int64_t* open = std::find(target.begin(), target.end(), Shape::kUnknownDim);
  if (!shape.is_fully_known()) return target;
  const int64_t count = shape.num_elements();
  if (open == target.end()) {
    if (checked_count("Reshape", target) != count) raise_unequal(shape, target);
    return target;
  }
  const int axis = static_cast<int>(open - target.begin());
  const int64_t others = checked_count("Reshape", target.without(axis));
  if (others == 0) {
    raise(
        Code::InvalidArgument,
        "[Reshape] the size of dimension {} of {} is unknown, because another dimension has size 0",
        axis, target.to_string());
  }
  if (count % others != 0) raise_unequal(shape, target);
  return target.with(axis, count / others);
}

// The shape after the squeeze.
Shape squeezed(const Shape& shape, const Attrs& attrs) {
  if (!shape.has_rank()) return shape;
  const std::vector<int64_t> axes = normalize_axes("Squeeze", attrs.integers("axes"), shape.rank());
  Shape result;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const int64_t size = shape[axis];
    const bool named = std::find(axes.begin(), axes.end(), axis) != axes.end();
    if (named && size != 1 && size != Shape::kUnknownDim) {
      raise(Code::InvalidArgument, "[Squeeze] dimension {} of shape {} has size {}, not 1", axis,
            shape.to_string(), size);
    }
    if (attrs.flag("all") && size == Shape::kUnknownDim) return Shape::unknown();
    if (!named && !(attrs.flag("all") && size == 1)) result.push_back(size);
  }
  return result;
}

}  // namespace

extern constexpr OpDef kReshape{
    .name = "Reshape",
    .inputs = 1,
    .dtypes = kAnyType,
    .attrs = {{"shape", AttrKind::Shape}},
    .infer = [](const OpInputs& inputs) -> Specs {
      const auto& target = inputs.attrs.get<Shape>("shape");
      if (!target.has_rank() || std::count(target.begin(), target.end(), Shape::kUnknownDim) > 1) {
        raise(Code::InvalidArgument, "[Reshape] at most one size may be -1, got shape {}",
              target.to_string());
      }
      return {{inputs.dtype(0), resolved(inputs.shape(0), target)}};
    },
    .compute =
        [](Kernel& k) {
          const Tensor& x = k.inputs[0];
          const Shape target = resolved(body(x).shape, k.attrs.get<Shape>("shape"));
          k.outputs[0] = from_moved(x, movable(x).reshape(sizes(target)));
        },
    .gradient = restore_shape,
};

extern constexpr OpDef kExpandDims{
    .name = "ExpandDims",
    .inputs = 1,
    .dtypes = kAnyType,
    .attrs = {{"axis", AttrKind::Int}},
    .infer = [](const OpInputs& inputs) -> Specs {
      const Shape& shape = inputs.shape(0);
      if (!shape.has_rank()) return {{inputs.dtype(0), shape}};
      require_possible_rank(inputs.op, shape.rank() + 1);
      const int axis = normalize_axis(inputs.op, inputs.attrs.integer("axis"), shape.rank() + 1);
      return {{inputs.dtype(0), shape.with_inserted(axis, 1)}};
    },
    .compute =
        [](Kernel& k) {
          const Tensor& x = k.inputs[0];
          k.outputs[0] = from_moved(x, movable(x).unsqueeze(k.attrs.integer("axis")));
        },
    .gradient = restore_shape,
};

extern constexpr OpDef kSqueeze{
    .name = "Squeeze",
    .inputs = 1,
    .dtypes = kAnyType,
    .attrs = {{"axes", AttrKind::Axes}, {"all", AttrKind::Bool}},
    .infer = [](const OpInputs& inputs) -> Specs {
      return {{inputs.dtype(0), squeezed(inputs.shape(0), inputs.attrs)}};
    },
    .compute =
        [](Kernel& k) {
          const Tensor& x = k.inputs[0];
          const Shape target = squeezed(body(x).shape, k.attrs);
          k.outputs[0] = from_moved(x, movable(x).reshape(sizes(target)));
        },
    .gradient = restore_shape,
};

namespace {

// Which input dimension each output dimension is. An empty attribute reverses them.
std::vector<int64_t> permutation_of(const Attrs& attrs, int rank) {
  const std::vector<int64_t>& given = attrs.integers("permutation");
  if (given.empty()) {
    std::vector<int64_t> reversed(static_cast<size_t>(rank));
    std::iota(reversed.rbegin(), reversed.rend(), 0);
    return reversed;
  }
  if (static_cast<int>(given.size()) != rank) {
    raise(Code::InvalidArgument,
          "[Transpose] the permutation names {} dimensions, but the tensor has {}", given.size(),
          rank);
  }
  return normalize_axes("Transpose", given, rank);
}

// The permutation that undoes the call's.
std::vector<int64_t> inverse_permutation(const Attrs& attrs) {
  const std::vector<int64_t>& given = attrs.integers("permutation");
  const auto rank = static_cast<int>(given.size());
  std::vector<int64_t> inverse(given.size());
  for (int i = 0; i < rank; ++i) {
    const int64_t axis = given[static_cast<size_t>(i)];
    inverse[static_cast<size_t>(axis < 0 ? axis + rank : axis)] = i;
  }
  return inverse;
}

}  // namespace

extern constexpr OpDef kTranspose{
    .name = "Transpose",
    .inputs = 1,
    .dtypes = kAnyType,
    .attrs = {{"permutation", AttrKind::Axes}},
    .infer = [](const OpInputs& inputs) -> Specs {
      const Shape& shape = inputs.shape(0);
      const std::vector<int64_t>& given = inputs.attrs.integers("permutation");
      if (!shape.has_rank() && given.empty()) return {{inputs.dtype(0), shape}};
      const int rank = shape.has_rank() ? shape.rank() : static_cast<int>(given.size());
      Shape result;
      for (const int64_t axis : permutation_of(inputs.attrs, rank)) {
        result.push_back(shape.has_rank() ? shape.begin()[axis] : Shape::kUnknownDim);
      }
      return {{inputs.dtype(0), result}};
    },
    .compute =
        [](Kernel& k) {
          const Tensor& x = k.inputs[0];
          const at::Tensor value = movable(x);
          const auto rank = static_cast<int>(value.dim());
          k.outputs[0] = from_moved(x, value.permute(permutation_of(k.attrs, rank)));
        },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      return {transpose(g[0], inverse_permutation(call.attrs))};
    },
};

namespace {

constexpr OpDef count_op(std::string_view name, Compute compute) {
  return {.name = name,
          .inputs = 1,
          .dtypes = kAnyType,
          .infer = [](const OpInputs&) -> Specs {
            return {{kInt64, {}}};
          },
          .compute = compute,
          .gradient = no_slope,
          .traits = Trait::ShapeOnly};
}

}  // namespace

extern constexpr OpDef kShape{
    .name = "Shape",
    .inputs = 1,
    .dtypes = kAnyType,
    .infer = [](const OpInputs& inputs) -> Specs {
      return {{kInt64, {int64_t{inputs.shape(0).rank()}}}};  // -1, unknown, without a rank
    },
    .compute =
        [](Kernel& k) {
          const Shape& shape = body(k.inputs[0]).shape;
          at::Tensor result = at::empty({shape.rank()}, at::kLong);
          std::copy(shape.begin(), shape.end(), result.data_ptr<int64_t>());
          set(k, std::move(result));
        },
    .gradient = no_slope,
    .traits = Trait::ShapeOnly,
};

extern constexpr OpDef kSize = count_op("Size", [](Kernel& k) {
  set(k, at::scalar_tensor(body(k.inputs[0]).shape.num_elements(), at::kLong));
});

extern constexpr OpDef kRank = count_op("Rank", [](Kernel& k) {
  set(k, at::scalar_tensor(body(k.inputs[0]).shape.rank(), at::kLong));
});

}  // namespace internal

Tensor reshape(const Tensor& x, const Shape& shape, Site site) {
  return internal::apply(internal::kReshape, {x}, {{"shape", shape}}, site);
}

Tensor expand_dims(const Tensor& x, int axis, Site site) {
  return internal::apply(internal::kExpandDims, {x}, {{"axis", int64_t{axis}}}, site);
}

Tensor squeeze(const Tensor& x, const Axes& axes, Site site) {
  return internal::apply(internal::kSqueeze, {x}, {{"axes", axes.axes}, {"all", axes.all}}, site);
}

Tensor transpose(const Tensor& x, const std::vector<int64_t>& permutation, Site site) {
  return internal::apply(internal::kTranspose, {x}, {{"permutation", permutation}}, site);
}

Tensor shape(const Tensor& x, Site site) {
  return internal::apply(internal::kShape, {x}, {}, site);
}
Tensor size(const Tensor& x, Site site) { return internal::apply(internal::kSize, {x}, {}, site); }
Tensor rank(const Tensor& x, Site site) { return internal::apply(internal::kRank, {x}, {}, site); }

}  // namespace cohort
