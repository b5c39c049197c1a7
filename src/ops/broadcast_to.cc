#include "base/raise.h"
#include "cohort/ops.h"
#include "ops/checks.h"
#include "ops/kernel.h"
#include "ops/like.h"

namespace cohort {
namespace internal {
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
    .gradient = [](const OpCall& call, std::span<const Tensor> g) -> Gradients {
      return {sum_like(g[0], call.inputs[0])};
    },
};

}  // namespace internal

Tensor broadcast_to(const Tensor& x, const Shape& shape, Site site) {
  return internal::apply(internal::kBroadcastTo, {x}, {{"shape", shape}}, site);
}

}  // namespace cohort
