#include <numeric>

#include "base/raise.h"
#include "cohort/ops.h"
#include "ops/kernel.h"
#include "ops/movable.h"

namespace cohort {
namespace internal {
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
    .gradient = [](const OpCall& call, std::span<const Tensor> g) -> Gradients {
      return {transpose(g[0], inverse_permutation(call.attrs))};
    },
};

}  // namespace internal

Tensor transpose(const Tensor& x, const std::vector<int64_t>& permutation, Site site) {
  return internal::apply(internal::kTranspose, {x}, {{"permutation", permutation}}, site);
}

}  // namespace cohort
