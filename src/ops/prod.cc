// Products over axes. The gradient of a product is the product of all others, which stays right
// when some are zero, where dividing the whole product would not.

#include <algorithm>

#include "cohort/ops.h"
#include "ops/kernel.h"
#include "ops/reduction.h"

namespace cohort {
namespace internal {
namespace {

// A view of tensors of one shape as a matrix whose rows are reduced, and the way back.
class RowLayout {
 public:
  RowLayout(const at::Tensor& x, const std::vector<int64_t>& reduced) {
    for (int64_t axis = 0; axis < x.dim(); ++axis) {
      const bool goes = std::find(reduced.begin(), reduced.end(), axis) != reduced.end();
      (goes ? columns_ : rows_) *= x.size(axis);
      if (!goes) order_.push_back(axis);
    }
    order_.insert(order_.end(), reduced.begin(), reduced.end());
    for (const int64_t axis : order_) sizes_.push_back(x.size(axis));
  }

  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }

  at::Tensor matrix(const at::Tensor& x) const {
    return widened(x).permute(order_).reshape({rows_, columns_}).contiguous();
  }
  at::Tensor restored(const at::Tensor& matrix, const at::Tensor& like) const {
    std::vector<int64_t> back(order_.size());
    for (size_t i = 0; i < order_.size(); ++i) back[order_[i]] = static_cast<int64_t>(i);
    return narrowed(matrix.reshape(sizes_).permute(back), like);
  }

 private:
  int64_t rows_ = 1;
  int64_t columns_ = 1;
  std::vector<int64_t> order_;  // axes that stay, then those that are reduced
  std::vector<int64_t> sizes_;  // in that order
};

// out[i] = product of every x[k] but x[i]
template <typename T>
void products_of_others(const T* x, T* out, int64_t count) {
  T before = 1;
  for (int64_t i = 0; i < count; ++i) {
    out[i] = before;
    before *= x[i];
  }
  T after = 1;
  for (int64_t i = count - 1; i >= 0; --i) {
    out[i] *= after;
    after *= x[i];
  }
}

// The product of some x, and the sum over these of h[i] times the product of the others.
template <typename T>
struct Partial {
  T product = 1;
  T sum = 0;

  void include(T x, T h) {
    sum = sum * x + product * h;
    product *= x;
  }
};

// out[j] = sum over i != j of h[i] times the product of every x[k] but x[i] and x[j]
template <typename T>
void slopes_of_others(const T* x, const T* h, T* out, int64_t count) {
  std::vector<Partial<T>> before(static_cast<size_t>(count));
  Partial<T> running;
  for (int64_t i = 0; i < count; ++i) {
    before[i] = running;
    running.include(x[i], h[i]);
  }
  Partial<T> after;
  for (int64_t i = count - 1; i >= 0; --i) {
    out[i] = before[i].sum * after.product + before[i].product * after.sum;
    after.include(x[i], h[i]);
  }
}

// Sets output 0 by calling body(input, out, count) for each row: input(i) is where the row begins
// in input i, and `out` where it begins in the result.
template <typename Body>
void compute_rows(Kernel& k, std::string_view op, const Body& body) {
  const RowLayout layout(in(k), reduced_axes(op, k.attrs, static_cast<int>(in(k).dim())));
  std::vector<at::Tensor> inputs;
  for (size_t i = 0; i < k.inputs.size(); ++i) inputs.push_back(layout.matrix(in(k, i)));
  const at::Tensor out = at::empty_like(inputs[0]);
  const auto each_row = [&]<typename T>(T) {
    for (int64_t row = 0; row < layout.rows(); ++row) {
      const int64_t at = row * layout.columns();
      const auto from = [&](size_t i) -> const T* { return inputs[i].data_ptr<T>() + at; };
      body(from, out.data_ptr<T>() + at, layout.columns());
    }
  };
  out.scalar_type() == at::kDouble ? each_row(double{}) : each_row(float{});
  set(k, layout.restored(out, in(k)));
}

void compute_prod_others(Kernel& k) {
  compute_rows(k, "ProdOthers", [](const auto& input, auto* out, int64_t count) {
    products_of_others(input(0), out, count);
  });
}

void compute_prod_others_grad(Kernel& k) {
  compute_rows(k, "ProdOthersGrad", [](const auto& input, auto* out, int64_t count) {
    slopes_of_others(input(0), input(1), out, count);
  });
}

Specs infer_over_axes(const OpInputs& inputs) {
  require_same_dtype(inputs);
  reduced_shape(inputs.op, inputs.attrs, inputs.shape(0));  // checks the axes
  return {{inputs.dtype(0), inputs.shape(0)}};
}

}  // namespace

extern constexpr OpDef kProdOthersGrad{
    .name = "ProdOthersGrad",
    .inputs = 2,
    .dtypes = kFloatTypes,
    .attrs = kReductionAttrs,
    .infer =
        [](const OpInputs& inputs) {
          Specs specs = infer_over_axes(inputs);
          specs[0].shape = inputs.shape(0).merged_with(inputs.shape(1));
          return specs;
        },
    .compute = compute_prod_others_grad,
    .no_gradient_because = "third derivatives of a product are not provided",
    .traits = Trait::HostKernel,
};

extern constexpr OpDef kProdOthers =
    with_trait(reduction_op("ProdOthers", kFloatTypes, infer_over_axes, compute_prod_others,
                            [](const OpCall& call, Grads g) -> Gradients {
                              return {apply(kProdOthersGrad, {call.inputs[0], g[0]}, call.attrs)};
                            }),
               Trait::HostKernel);

extern constexpr OpDef kProd = reduction_op(
    "Prod", kNumericTypes, infer_arithmetic_reduction,
    [](Kernel& k) {
      const at::Tensor& x = in(k);
      at::Tensor result = x.scalar_type() == at::kBool ? x.to(at::kLong) : widened(x);
      const at::ScalarType type = result.scalar_type();
      for (const int64_t axis : reduced_axes("Prod", k.attrs, static_cast<int>(x.dim()))) {
        result = at::prod(result, axis, k.attrs.flag("keep"), type);
      }
      set(k, narrowed(std::move(result), x));
    },
    [](const OpCall& call, Grads g) -> Gradients {
      return {spread(g[0], call) * apply(kProdOthers, {call.inputs[0]}, call.attrs)};
    });

}  // namespace internal

Tensor prod(const Tensor& x, const Axes& axes, KeepDims keep, Site site) {
  return internal::apply(internal::kProd, {x}, internal::reduction_attrs(axes, keep), site);
}

}  // namespace cohort
