// Adding a vector along one axis, alone and fused with a matrix product.

#include "base/raise.h"
#include "cohort/nn_ops.h"
#include "ops/elementwise.h"
#include "ops/kernel.h"

namespace cohort {
namespace internal {
namespace {

Specs infer_bias_add(const OpInputs& inputs) {
  require_same_dtype(inputs);
  const Shape& x = inputs.shape(0);
  require_rank_at_least(inputs.op, x, 1, "the input");
  require_rank(inputs.op, inputs.shape(1), 1, "the bias");
  if (!x.has_rank()) return infer_same(inputs);
  const int axis = normalize_axis(inputs.op, inputs.attrs.integer("axis"), x.rank());
  if (!inputs.shape(1).is_compatible_with(Shape{x[axis]})) {
    raise(Code::InvalidArgument, "[{}] the bias of shape {} does not fit axis {} of an input of {}",
          inputs.op, inputs.shape(1).to_string(), axis, x.to_string());
  }
  return infer_same(inputs);
}

// Every axis but one.
std::vector<int64_t> other_axes(int rank, int64_t axis) {
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < rank; ++i) {
    if (i != (axis < 0 ? axis + rank : axis)) axes.push_back(i);
  }
  return axes;
}

Specs infer_dense(const OpInputs& inputs) {
  require_same_dtype(inputs);
  const Shape& x = inputs.shape(0);
  const Shape& kernel = inputs.shape(1);
  require_rank(inputs.op, x, 2, "the input");
  require_rank(inputs.op, kernel, 2, "the kernel");
  require_rank(inputs.op, inputs.shape(2), 1, "the bias");
  if (!x.has_rank() || !kernel.has_rank()) return {{inputs.dtype(0), {-1, -1}}};
  if (x[1] >= 0 && kernel[0] >= 0 && x[1] != kernel[0]) {
    raise(Code::InvalidArgument, "[{}] an input of shape {} does not fit a kernel of shape {}",
          inputs.op, x.to_string(), kernel.to_string());
  }
  if (!inputs.shape(2).is_compatible_with(Shape{kernel[1]})) {
    raise(Code::InvalidArgument, "[{}] a bias of shape {} does not fit a kernel of shape {}",
          inputs.op, inputs.shape(2).to_string(), kernel.to_string());
  }
  const Shape result{x[0], kernel[1]};
  require_allocatable(inputs.op, result, inputs.dtype(0));
  return {{inputs.dtype(0), result}};
}

}  // namespace

extern constexpr OpDef kBiasAdd{
    .name = "BiasAdd",
    .inputs = 2,  // (x, bias)
    .dtypes = kNumberTypes,
    .attrs = {{"axis", AttrKind::Int}},
    .infer = infer_bias_add,
    .compute =
        [](Kernel& k) {
          const at::Tensor& x = in(k, 0);
          const int64_t axis = k.attrs.integer("axis");
          const int64_t behind = axis < 0 ? -1 - axis : x.dim() - 1 - axis;
          at::DimVector shape(static_cast<size_t>(behind) + 1, 1);
          shape[0] = in(k, 1).size(0);
          const at::Tensor bias = in(k, 1).reshape(shape);
          compute_over(
              k, 0, [&] { return at::add(x, bias); }, [&](at::Tensor& sum) { sum.add_(bias); });
        },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      if (!call.wants(1)) return {g[0], {}};
      if (!g[0].shape().has_rank()) {
        raise(Code::InvalidArgument, "[BiasAddGrad] the number of dimensions must be known");
      }
      return {g[0], sum(g[0], other_axes(g[0].rank(), call.attrs.integer("axis")))};
    },
};

extern constexpr OpDef kDense{
    .name = "Dense",
    .inputs = 3,  // (x, kernel, bias), all of the fewest dimensions
    .dtypes = kFloatTypes,
    .infer = infer_dense,
    .compute =
        [](Kernel& k) {
          set_narrowed(k, at::addmm(widened(in(k, 2)), widened(in(k, 0)), widened(in(k, 1))));
        },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      const Tensor none;
      return {call.wants(0) ? matmul(g[0], call.inputs[1], {.transpose_b = true}) : none,
              call.wants(1) ? matmul(call.inputs[0], g[0], {.transpose_a = true}) : none,
              call.wants(2) ? sum(g[0], 0) : none};
    },
};

}  // namespace internal

namespace nn {

Tensor dense(const Tensor& x, const Tensor& kernel, const Tensor& bias, Site site) {
  const int rank = x.defined() ? x.shape().rank() : 2;
  if (rank > 2 || rank < 0) return bias_add(matmul(x, kernel, {}, site), bias, -1, site);
  return cohort::internal::apply(cohort::internal::kDense, {x, kernel, bias}, {}, site);
}

Tensor bias_add(const Tensor& x, const Tensor& bias, int axis, Site site) {
  return cohort::internal::apply(cohort::internal::kBiasAdd, {x, bias}, {{"axis", int64_t{axis}}},
                                 site);
}

}  // namespace nn
}  // namespace cohort
