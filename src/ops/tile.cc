#include "base/raise.h"
#include "cohort/ops.h"
#include "ops/all_ops.h"
#include "ops/checks.h"
#include "ops/kernel.h"

namespace cohort {
namespace internal {
namespace {

Shape tiled(const OpInputs& inputs, const Shape& shape) {
  const std::vector<int64_t>& multiples = inputs.attrs.integers("multiples");
  if (shape.has_rank() && static_cast<int>(multiples.size()) != shape.rank()) {
    raise(Code::InvalidArgument, "[{}] {} multiples for a tensor of shape {}", inputs.op,
          multiples.size(), shape.to_string());
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
    .gradient = [](const OpCall& call, std::span<const Tensor> g) -> Gradients {
      return {apply(kTileGrad, {g[0], call.inputs[0]}, call.attrs)};
    },
};

// The sum of the repetitions in input 0, in the shape of input 1.
extern constexpr OpDef kTileGrad{
    .name = "TileGrad",
    .inputs = 2,
    .dtypes = kFloatTypes,
    .attrs = {{"multiples", AttrKind::Axes}},
    .infer = [](const OpInputs& inputs) -> Specs {
      require_compatible(inputs.op, inputs.shape(0), tiled(inputs, inputs.shape(1)),
                         "the gradient");
      return {{inputs.dtype(0), inputs.shape(1)}};
    },
    .compute =
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
    .gradient = [](const OpCall& call, std::span<const Tensor> g) -> Gradients {
      return {tile(g[0], call.attrs.integers("multiples")), {}};
    },
    .traits = Trait::OneDType,
};

}  // namespace internal

Tensor tile(const Tensor& x, const std::vector<int64_t>& multiples, Site site) {
  return internal::apply(internal::kTile, {x}, {{"multiples", multiples}}, site);
}

}  // namespace cohort
