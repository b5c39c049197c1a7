// Two-dimensional pooling.

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include <atomic>

#include "base/raise.h"
#include "cohort/nn_ops.h"
#include "kernels/max_pool.h"
#include "ops/all_ops.h"
#include "ops/window2d.h"

namespace cohort {
namespace internal {
namespace {

constexpr AttrList kWindowAttrs{{"window", AttrKind::Pair},
                                {"stride", AttrKind::Pair},
                                {"padding", AttrKind::Pair},
                                {"same", AttrKind::Bool}};

Attrs pool_attrs(nn::Size2d window, const nn::Pool2dOptions& options) {
  const bool by_window = options.stride.height == 0 && options.stride.width == 0;
  return {{"window", to_attr(window)},
          {"stride", to_attr(by_window ? window : options.stride)},
          {"padding", to_attr(options.padding.amount)},
          {"same", options.padding.same}};
}

Window2d window_of(const Attrs& attrs) {
  return {sides(attrs, "window"),
          sides(attrs, "stride"),
          {1, 1},
          sides(attrs, "padding"),
          attrs.flag("same")};
}

Shape pooled_shape(std::string_view op, const Attrs& attrs, const Shape& x) {
  const Window2d window = window_of(attrs);
  window.check(op);
  for (size_t i = 0; i < 2; ++i) {
    if (window.padding[i] <= window.size[i] / 2) continue;
    raise(Code::InvalidArgument, "[{}] padding {} is more than half the window's {}", op,
          window.padding[i], window.size[i]);
  }
  require_rank(op, x, 4, "the input");
  if (!x.has_rank()) return {-1, -1, -1, -1};
  if (x[1] == 0) {
    raise(Code::InvalidArgument, "[{}] an input of shape {} has no channels", op, x.to_string());
  }
  return window.output(op, x, x[1]);
}

Specs infer_pool(const OpInputs& inputs) {
  return {{inputs.dtype(0), pooled_shape(inputs.op, inputs.attrs, inputs.shape(0))}};
}

Specs infer_max_pool(const OpInputs& inputs) {
  const Spec values = infer_pool(inputs)[0];
  return {values, {kInt64, values.shape}};
}

// Inputs (g, x, ...): what comes out has the shape of x.
Specs infer_pool_grad(const OpInputs& inputs) {
  const Shape pooled = pooled_shape(inputs.op, inputs.attrs, inputs.shape(1));
  if (inputs.dtype(0) != inputs.dtype(1) || !is_floating(inputs.dtype(0)) ||
      !pooled.is_compatible_with(inputs.shape(0))) {
    raise(Code::InvalidArgument, "[{}] a gradient of shape {} does not fit an output of {}",
          inputs.op, inputs.shape(0).to_string(), pooled.to_string());
  }
  return {{inputs.dtype(0), inputs.shape(1)}};
}

// In a graph sizes may be known only now.
at::Tensor max_pool_grad(const Window2d& window, const at::Tensor& x, const at::Tensor& g,
                         const at::Tensor& indices) {
  const Window2d::Sides output = window.output("MaxPool2dGrad", x.size(2), x.size(3));
  const PaddedPlanes planes(window, x);
  const at::Tensor out =
      at::empty({x.size(0), x.size(1), x.size(2) + planes.extra[0], x.size(3) + planes.extra[1]},
                x.options());
  const at::DimVector sizes = {x.size(0), x.size(1), output[0], output[1]};
  if (indices.scalar_type() != at::kLong || indices.sizes() != sizes || g.sizes() != sizes) {
    raise(Code::InvalidArgument, "[MaxPool2dGrad] the indices do not fit the output");
  }
  const at::Tensor from = g.contiguous();
  const at::Tensor places = indices.contiguous();
  std::atomic<bool> inside = true;
  AT_DISPATCH_FLOATING_TYPES(g.scalar_type(), "max_pool2d_grad", [&] {
    const PoolGradient<scalar_t> planes_of{.g = from.data_ptr<scalar_t>(),
                                           .indices = places.data_ptr<int64_t>(),
                                           .pooled = output[0] * output[1],
                                           .x = out.data_ptr<scalar_t>(),
                                           .plane = out.size(2) * out.size(3)};
    at::parallel_for(0, out.size(0) * out.size(1), 16, [&](int64_t begin, int64_t end) {
      if (!max_pool_gradient(planes_of, begin, end)) inside = false;
    });
  });
  if (!inside) raise(Code::InvalidArgument, "[MaxPool2dGrad] an index is outside of the plane");
  return planes.cropped(out);
}

struct MaxPooled {
  at::Tensor values;
  at::Tensor indices;
};

MaxPooled max_pooled(const Window2d& window, const at::Tensor& given) {
  const at::Tensor x = given.contiguous();
  const PaddedPlanes planes(window, x);
  const PoolPlan plan{.size = window.size,
                      .stride = window.stride,
                      .before = planes.padding,
                      .plane = {x.size(2), x.size(3)},
                      .output = window.output("MaxPool2d", x.size(2), x.size(3)),
                      .row_length = x.size(3) + planes.extra[1]};
  const std::vector<int64_t> sizes = {x.size(0), x.size(1), plan.output[0], plan.output[1]};
  const MaxPooled pooled{at::empty(sizes, x.options()),
                         at::empty(sizes, x.options().dtype(at::kLong))};
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "max_pool2d", [&] {
    max_pool(plan, x.size(0) * x.size(1), x.data_ptr<scalar_t>(),
             pooled.values.data_ptr<scalar_t>(), pooled.indices.data_ptr<int64_t>());
  });
  return pooled;
}

// How many elements of the input each window covers, the others being padding.
at::Tensor window_counts(const Window2d& window, const PaddedPlanes& planes, const at::Tensor& x) {
  const at::Tensor inside = at::ones({1, 1, x.size(2), x.size(3)}, x.options());
  return at::avg_pool2d(planes.extended(inside, 0), window.size, window.stride, planes.padding,
                        false, true, 1);
}

at::Tensor avg_pool(const Window2d& window, const at::Tensor& x) {
  const PaddedPlanes planes(window, x);
  if (planes.symmetric()) {
    return at::avg_pool2d(x, window.size, window.stride, planes.padding, false, false);
  }
  const at::Tensor sums = at::avg_pool2d(planes.extended(x, 0), window.size, window.stride,
                                         planes.padding, false, true, 1);
  return sums.div(window_counts(window, planes, x));
}

at::Tensor avg_pool_grad(const Window2d& window, const at::Tensor& g, const at::Tensor& x) {
  const PaddedPlanes planes(window, x);
  if (planes.symmetric()) {
    return at::avg_pool2d_backward(g, x, window.size, window.stride, planes.padding, false, false,
                                   c10::nullopt);
  }
  const at::Tensor share = g.div(window_counts(window, planes, x));
  return planes.cropped(at::avg_pool2d_backward(share, planes.like_extended(x), window.size,
                                                window.stride, planes.padding, false, true, 1));
}

}  // namespace

// Indices count in the plane that has the extra rows and columns of PaddedPlanes.
extern constexpr OpDef kMaxPool2dGrad{
    .name = "MaxPool2dGrad",
    .inputs = 3,  // (g, x, indices)
    .dtypes = kFloatTypes | kIntegerTypes,
    .attrs = kWindowAttrs,
    .infer = infer_pool_grad,
    .compute =
        [](Kernel& k) {
          set_narrowed(
              k, max_pool_grad(window_of(k.attrs), widened(in(k, 1)), widened(in(k, 0)), in(k, 2)));
        },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      return {apply(kMaxPool2dPick, {g[0], call.inputs[2]}, call.attrs), {}, {}};
    },
    .traits = Trait::HostKernel,
};

extern constexpr OpDef kMaxPool2dPick{
    .name = "MaxPool2dPick",
    .inputs = 2,  // (x, indices): the elements that a max_pool2d chose
    .dtypes = kFloatTypes | kIntegerTypes,
    .attrs = kWindowAttrs,
    .infer = [](const OpInputs& inputs) -> Specs {
      const Shape pooled = pooled_shape(inputs.op, inputs.attrs, inputs.shape(0));
      if (inputs.dtype(1) != kInt64 || !pooled.is_compatible_with(inputs.shape(1))) {
        raise(Code::InvalidArgument, "[{}] indices must be int64 of shape {}, got {} of {}",
              inputs.op, pooled.to_string(), to_string(inputs.dtype(1)),
              inputs.shape(1).to_string());
      }
      return {{inputs.dtype(0), pooled.merged_with(inputs.shape(1))}};
    },
    .compute =
        [](Kernel& k) {
          const at::Tensor x = PaddedPlanes(window_of(k.attrs), in(k, 0)).extended(in(k, 0), 0);
          const at::Tensor picked = at::gather(x.flatten(2), 2, in(k, 1).flatten(2));
          set(k, picked.view(in(k, 1).sizes()));
        },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      return {apply(kMaxPool2dGrad, {g[0], call.inputs[0], call.inputs[1]}, call.attrs), {}};
    },
    .traits = Trait::HostKernel,
};

extern constexpr OpDef kMaxPool2d{
    .name = "MaxPool2d",
    .inputs = 1,  // x -> (values, indices)
    .dtypes = kFloatTypes,
    .attrs = kWindowAttrs,
    .infer = infer_max_pool,
    .compute =
        [](Kernel& k) {
          const MaxPooled pooled = max_pooled(window_of(k.attrs), widened(in(k)));
          set_narrowed(k, pooled.values, 0);
          set(k, pooled.indices, 1);
        },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      return {apply(kMaxPool2dGrad, {g[0], call.inputs[0], call.outputs[1]}, call.attrs)};
    },
    .traits = Trait::HostKernel,
};

extern constexpr OpDef kAvgPool2dGrad{
    .name = "AvgPool2dGrad",
    .inputs = 2,  // (g, x)
    .dtypes = kFloatTypes,
    .attrs = kWindowAttrs,
    .infer = infer_pool_grad,
    .compute =
        [](Kernel& k) {
          set_narrowed(k, avg_pool_grad(window_of(k.attrs), widened(in(k, 0)), widened(in(k, 1))));
        },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      return {apply(kAvgPool2d, {g[0]}, call.attrs), {}};
    },
};

extern constexpr OpDef kAvgPool2d{
    .name = "AvgPool2d",
    .inputs = 1,
    .dtypes = kFloatTypes,
    .attrs = kWindowAttrs,
    .infer = infer_pool,
    .compute = [](Kernel& k) { set_narrowed(k, avg_pool(window_of(k.attrs), widened(in(k)))); },
    .gradient = by_input<kAvgPool2dGrad>,
};

}  // namespace internal

namespace nn {

Tensor max_pool2d(const Tensor& x, Size2d window, const Pool2dOptions& options, Site site) {
  return cohort::internal::apply_many(cohort::internal::kMaxPool2d, std::span<const Tensor>(&x, 1),
                                      cohort::internal::pool_attrs(window, options), site)[0];
}

Tensor avg_pool2d(const Tensor& x, Size2d window, const Pool2dOptions& options, Site site) {
  return cohort::internal::apply(cohort::internal::kAvgPool2d, {x},
                                 cohort::internal::pool_attrs(window, options), site);
}

}  // namespace nn
}  // namespace cohort
