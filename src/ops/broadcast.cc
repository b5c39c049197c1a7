// Tensors that are made larger by repetition, and sums over the repetitions.

#include <ATen/ExpandUtils.h>

#include "base/raise.h"
#include "cohort/ops.h"
#include "ops/all_ops.h"
#include "ops/kernel.h"

namespace cohort {
namespace internal {
namespace {

// (x, a tensor that has the shape of the result)
constexpr OpDef like_op(std::string_view name, Compute compute, GradientOf gradient) {
  return {.name = name,
          .inputs = 2,
          .dtypes = kNumericTypes,
          .infer = [](const OpInputs& inputs) -> Specs {
            return {{inputs.dtype(0), inputs.shape(1)}};
          },
          .compute = compute,
          .gradient = gradient};
}

bool same_known_shape(const Tensor& x, const Tensor& like) {
  const Shape& shape = body(x).shape;
  return shape == body(like).shape && shape.is_fully_known();
}

}  // namespace

extern constexpr OpDef kSumLike = like_op(
    "SumLike", [](Kernel& k) { set(k, at::sum_to(in(k, 0), in(k, 1).sizes())); },
    [](const OpCall& call, Grads g) -> Gradients {
      return {broadcast_like(g[0], call.inputs[0]), {}};
    });

extern constexpr OpDef kBroadcastLike = like_op(
    "BroadcastLike", [](Kernel& k) { set(k, in(k, 0).expand(in(k, 1).sizes())); },
    [](const OpCall& call, Grads g) -> Gradients {
      return {sum_like(g[0], call.inputs[0]), {}};
    });

extern constexpr OpDef kReshapeLike = like_op(
    "ReshapeLike", [](Kernel& k) { set(k, in(k, 0).reshape(in(k, 1).sizes())); },
    [](const OpCall& call, Grads g) -> Gradients {
      return {reshape_like(g[0], call.inputs[0]), {}};
    });

Tensor sum_like(const Tensor& x, const Tensor& like) {
  return same_known_shape(x, like) ? x : apply(kSumLike, {x, like});
}

Tensor broadcast_like(const Tensor& x, const Tensor& like) {
  return same_known_shape(x, like) ? x : apply(kBroadcastLike, {x, like});
}

Tensor reshape_like(const Tensor& x, const Tensor& like) {
  return same_known_shape(x, like) ? x : apply(kReshapeLike, {x, like});
}

namespace {

// Aligned at the last dimension, every size is 1 or the target's.
bool broadcasts_to(const Shape& shape, const Shape& target) {
  if (!shape.has_rank()) return true;
  const int offset = target.rank() - shape.rank();
  if (offset < 0) return false;
  for (int i = 0; i < shape.rank(); ++i) {
    const int64_t size = shape[i];
    if (size != 1 && size >= 0 && size != target[i + offset]) return false;
  }
  return true;
}

}  // namespace

extern constexpr OpDef kBroadcastTo{
    .name = "BroadcastTo",
    .inputs = 1,
    .dtypes = kNumericTypes,
    .attrs = {{"shape", AttrKind::Shape}},
    .infer = [](const OpInputs& inputs) -> Specs {
      const auto& target = inputs.attrs.get<Shape>("shape");
      require_creatable(inputs.op, target, inputs.dtype(0));
      if (!broadcasts_to(inputs.shape(0), target)) {
        raise(Code::InvalidArgument, "[BroadcastTo] shape {} does not broadcast to {}",
              inputs.shape(0).to_string(), target.to_string());
      }
      return {{inputs.dtype(0), target}};
    },
    .compute = [](Kernel& k) { set(k, in(k).expand(sizes(k.attrs.get<Shape>("shape")))); },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      return {sum_like(g[0], call.inputs[0])};
    },
};

namespace {

Shape tiled(const OpInputs& inputs, const Shape& shape) {
  const std::vector<int64_t>& multiples = inputs.attrs.integers("multiples");
  if (shape.has_rank() && static_cast<int>(multiples.size()) != shape.rank()) {
    raise(Code::InvalidArgument, "[{}] needs one multiple per dimension, got {} for shape {}",
          inputs.op, multiples.size(), shape.to_string());
  }
  require_possible_rank(inputs.op, static_cast<int>(multiples.size()));
  Shape result;
  for (size_t i = 0; i < multiples.size(); ++i) {
    require_size(inputs.op, multiples[i], "a multiple");
    const int64_t size = shape.has_rank() ? shape[static_cast<int>(i)] : Shape::kUnknownDim;
    result.push_back(size < 0 ? size : checked_multiply(inputs.op, size, multiples[i]));
  }
  return result;
}

}  // namespace

extern constexpr OpDef kTile{
    .name = "Tile",
    .inputs = 1,
    .dtypes = kNumericTypes,
    .attrs = {{"multiples", AttrKind::Axes}},
    .infer = [](const OpInputs& inputs) -> Specs {
      const Shape shape = tiled(inputs, inputs.shape(0));
      if (shape.is_fully_known()) require_creatable(inputs.op, shape, inputs.dtype(0));
      return {{inputs.dtype(0), shape}};
    },
    .compute = [](Kernel& k) { set(k, in(k).repeat(k.attrs.integers("multiples"))); },
    .gradient = by_input<kTileGrad>,
};

// The sum of the repetitions in input 0, in the shape of input 1.
extern constexpr OpDef kTileGrad = input_gradient_op<tiled>(
    "TileGrad", {{"multiples", AttrKind::Axes}},
    [](Kernel& k) {
      const std::vector<int64_t>& multiples = k.attrs.integers("multiples");
      if (multiples.empty()) return set(k, in(k));
      // Each dimension becomes two: which repetition, and where in it.
      at::DimVector split;
      at::DimVector repetitions;
      for (size_t i = 0; i < multiples.size(); ++i) {
        repetitions.push_back(static_cast<int64_t>(split.size()));
        split.push_back(multiples[i]);
        split.push_back(in(k, 1).size(static_cast<int64_t>(i)));
      }
      set(k, in(k).reshape(split).sum(repetitions));
    },
    [](const OpCall& call, Grads g) -> Gradients {
      return {tile(g[0], call.attrs.integers("multiples")), {}};
    });

}  // namespace internal

Tensor broadcast_to(const Tensor& x, const Shape& shape, Site site) {
  return internal::apply(internal::kBroadcastTo, {x}, {{"shape", shape}}, site);
}

Tensor tile(const Tensor& x, const std::vector<int64_t>& multiples, Site site) {
  return internal::apply(internal::kTile, {x}, {{"multiples", multiples}}, site);
}

}  // namespace cohort
