// Matrix products, alone and fused with a bias, and adding a vector along one axis.

#include <ATen/ExpandUtils.h>
#include <ATen/TensorUtils.h>

#include <array>

#include "base/raise.h"
#include "cohort/nn_ops.h"
#include "cohort/ops.h"
#include "ops/elementwise.h"
#include "ops/kernel.h"

namespace cohort {
namespace internal {
namespace {

Shape batch_of(const Shape& shape) { return shape.without(-1).without(-1); }

// What the last two dimensions say: rows and columns once the flags are followed.
struct Matrix {
  int64_t rows;
  int64_t columns;
};
Matrix matrix_of(const Shape& shape, bool transposed) {
  return transposed ? Matrix{shape[-1], shape[-2]} : Matrix{shape[-2], shape[-1]};
}

Specs infer_matmul(const OpInputs& inputs) {
  require_same_dtype(inputs);
  const Shape& a = inputs.shape(0);
  const Shape& b = inputs.shape(1);
  if ((a.has_rank() && a.rank() < 2) || (b.has_rank() && b.rank() < 2)) {
    raise(Code::InvalidArgument, "[MatMul] needs at least 2 dimensions each, got shapes {} and {}",
          a.to_string(), b.to_string());
  }
  if (!a.has_rank() || !b.has_rank()) return {{inputs.dtype(0), Shape::unknown()}};
  const Matrix left = matrix_of(a, inputs.attrs.flag("transpose_a"));
  const Matrix right = matrix_of(b, inputs.attrs.flag("transpose_b"));
  if (left.columns != right.rows && left.columns >= 0 && right.rows >= 0) {
    raise(Code::InvalidArgument, "[MatMul] inner sizes differ: {} and {} of shapes {}{} and {}{}",
          left.columns, right.rows, a.to_string(),
          inputs.attrs.flag("transpose_a") ? " (transposed)" : "", b.to_string(),
          inputs.attrs.flag("transpose_b") ? " (transposed)" : "");
  }
  Shape shape = broadcast_shapes(inputs.op, batch_of(a), batch_of(b));
  shape.push_back(left.rows);
  shape.push_back(right.columns);
  require_allocatable(inputs.op, shape, inputs.dtype(0));
  return {{inputs.dtype(0), shape}};
}

at::Tensor seen(const at::Tensor& x, bool transposed) {
  return transposed ? x.transpose(-2, -1) : x;
}

// `x` with its leading dimensions as one, when that takes no copy.
c10::optional<at::Tensor> as_batch(const at::Tensor& x) {
  int64_t count = 1;
  for (int64_t i = 0; i < x.dim() - 2; ++i) count *= x.size(i);
  const std::array<int64_t, 3> flat = {count, x.size(-2), x.size(-1)};
  const auto strides = at::detail::computeStride(x.sizes(), x.strides(), at::IntArrayRef(flat));
  if (!strides) return c10::nullopt;
  return x.as_strided(flat, *strides);
}

// out = a b for tensors of one batch shape. What cannot be seen as one batch is walked.
void multiply_batches(const at::Tensor& a, const at::Tensor& b, const at::Tensor& out) {
  const auto a_batch = as_batch(a);
  const auto b_batch = as_batch(b);
  if (a_batch && b_batch) {
    at::Tensor flat = out.view({a_batch->size(0), out.size(-2), out.size(-1)});
    at::bmm_out(flat, *a_batch, *b_batch);
    return;
  }
  for (int64_t i = 0; i < out.size(0); ++i) {
    multiply_batches(a.select(0, i), b.select(0, i), out.select(0, i));
  }
}

at::Tensor product_of(const at::Tensor& a, const at::Tensor& b) {
  if (a.dim() == 2 && b.dim() == 2) return at::mm(a, b);
  if (b.dim() == 2 && a.is_contiguous() && a.numel() > 0) {
    // One large product instead of many small ones.
    std::vector<int64_t> sizes(a.sizes().begin(), a.sizes().end());
    sizes.back() = b.size(1);
    return at::mm(a.view({-1, a.size(-1)}), b).view(sizes);
  }
  const std::vector<int64_t> batch =
      at::infer_size(a.sizes().slice(0, a.dim() - 2), b.sizes().slice(0, b.dim() - 2));
  const auto with = [&](int64_t rows, int64_t columns) {
    std::vector<int64_t> sizes = batch;
    sizes.insert(sizes.end(), {rows, columns});
    return sizes;
  };
  const std::vector<int64_t> out_sizes = with(a.size(-2), b.size(-1));
  if (a.numel() == 0 || b.numel() == 0) return at::zeros(out_sizes, a.options());
  const at::Tensor out = at::empty(out_sizes, a.options());
  multiply_batches(a.expand(with(a.size(-2), a.size(-1))), b.expand(with(b.size(-2), b.size(-1))),
                   out);
  return out;
}

// Whether the product was many rows times one matrix, whose gradient is then one product too.
bool folds(const OpCall& call, const Tensor& g) {
  const Shape a = call.inputs[0].shape();
  const Shape b = call.inputs[1].shape();
  const Shape out = g.shape();
  return !call.attrs.flag("transpose_a") && b.rank() == 2 && a.rank() > 2 && a[-1] > 0 &&
         out.has_rank() && out[-1] > 0;
}

Tensor rows_of(const Tensor& x) { return reshape(x, Shape{-1, x.shape()[-1]}); }

Tensor a_gradient(const OpCall& call, const Tensor& g) {
  const Tensor& b = call.inputs[1];
  const bool tb = call.attrs.flag("transpose_b");
  const Tensor product = call.attrs.flag("transpose_a")
                             ? matmul(b, g, {.transpose_a = tb, .transpose_b = true})
                             : matmul(g, b, {.transpose_b = !tb});
  return sum_like(product, call.inputs[0]);
}

Tensor b_gradient(const OpCall& call, const Tensor& g) {
  const bool fold = folds(call, g);
  const Tensor a = fold ? rows_of(call.inputs[0]) : call.inputs[0];
  const Tensor c = fold ? rows_of(g) : g;
  const bool ta = call.attrs.flag("transpose_a");
  const Tensor product = call.attrs.flag("transpose_b")
                             ? matmul(c, a, {.transpose_a = true, .transpose_b = ta})
                             : matmul(a, c, {.transpose_a = !ta});
  return sum_like(product, call.inputs[1]);
}

}  // namespace

extern constexpr OpDef kMatMul{
    .name = "MatMul",
    .inputs = 2,
    .dtypes = kNumberTypes,
    .attrs = {{"transpose_a", AttrKind::Bool}, {"transpose_b", AttrKind::Bool}},
    .infer = infer_matmul,
    .compute =
        [](Kernel& k) {
          const at::Tensor a = seen(widened(in(k, 0)), k.attrs.flag("transpose_a"));
          const at::Tensor b = seen(widened(in(k, 1)), k.attrs.flag("transpose_b"));
          set(k, narrowed(product_of(a, b), in(k, 0)));
        },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      return {call.wants(0) ? Gradient(a_gradient(call, g[0])) : Gradient(),
              call.wants(1) ? Gradient(b_gradient(call, g[0])) : Gradient()};
    },
    .traits = Trait::OneDType,
};

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
      const int rank = known_rank("BiasAddGrad", g[0]);
      return {g[0], sum(g[0], other_axes(rank, call.attrs.integer("axis")))};
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

Tensor matmul(const Tensor& a, const Tensor& b, MatmulOptions options, Site site) {
  return internal::apply(
      internal::kMatMul, {a, b},
      {{"transpose_a", options.transpose_a}, {"transpose_b", options.transpose_b}}, site);
}

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
