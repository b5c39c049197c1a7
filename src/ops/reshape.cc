// The same elements under another shape: reshape, expand_dims, squeeze.

#include <algorithm>

#include "base/raise.h"
#include "cohort/ops.h"
#include "ops/checks.h"
#include "ops/kernel.h"
#include "ops/like.h"
#include "ops/movable.h"

namespace cohort {
namespace internal {
namespace {

Gradients restore_shape(const OpCall& call, std::span<const Tensor> g) {
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
    raise(Code::InvalidArgument,
          "[Reshape] the size of dimension {} of {} cannot be told, because another is 0", axis,
          target.to_string());
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

}  // namespace cohort
