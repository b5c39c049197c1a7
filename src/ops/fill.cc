// Tensors of one value, and the identity matrix.

#include "base/raise.h"
#include "cohort/ops.h"
#include "ops/checks.h"
#include "ops/kernel.h"
#include "ops/like.h"

namespace cohort {
namespace internal {
namespace {

constexpr std::string_view kConstant = "it has no inputs";

Specs infer_filled(const OpInputs& inputs) {
  const auto& shape = inputs.attrs.get<Shape>("shape");
  const auto dtype = inputs.attrs.get<DType>("dtype");
  to_aten(dtype);  // throws unless numeric
  require_creatable(inputs.op, shape, dtype);
  return {{dtype, shape}};
}

// The result does not depend on the input's values.
Gradients constant(const OpCall&, std::span<const Tensor>) { return {{}}; }

at::TensorOptions options_of(const Kernel& k) { return to_aten(k.attrs.get<DType>("dtype")); }

}  // namespace

extern constexpr OpDef kZeros{
    .name = "Zeros",
    .inputs = 0,
    .dtypes = kNumericTypes,
    .attrs = {{"shape", AttrKind::Shape}, {"dtype", AttrKind::DType}},
    .infer = infer_filled,
    .compute =
        [](Kernel& k) { set(k, at::zeros(sizes(k.attrs.get<Shape>("shape")), options_of(k))); },
    .gradient = nullptr,
    .no_gradient_because = kConstant,
};

extern constexpr OpDef kOnes{
    .name = "Ones",
    .inputs = 0,
    .dtypes = kNumericTypes,
    .attrs = kDeclaredAttrs,
    .infer = infer_filled,
    .compute =
        [](Kernel& k) { set(k, at::ones(sizes(k.attrs.get<Shape>("shape")), options_of(k))); },
    .gradient = nullptr,
    .no_gradient_because = kConstant,
};

extern constexpr OpDef kFill{
    .name = "Fill",
    .inputs = 1,
    .dtypes = kNumericTypes,
    .attrs = {{"shape", AttrKind::Shape}},
    .infer = [](const OpInputs& inputs) -> Specs {
      const auto& shape = inputs.attrs.get<Shape>("shape");
      require_rank(inputs.op, inputs.shape(0), 0, "the value");
      require_creatable(inputs.op, shape, inputs.dtype(0));
      return {{inputs.dtype(0), shape}};
    },
    .compute =
        [](Kernel& k) {
          at::Tensor filled = at::empty(sizes(k.attrs.get<Shape>("shape")), in(k).options());
          set(k, filled.fill_(in(k)));
        },
    .gradient = [](const OpCall& call, std::span<const Tensor> g) -> Gradients {
      return {sum_like(g[0], call.inputs[0])};
    },
};

extern constexpr OpDef kZerosLike{
    .name = "ZerosLike",
    .inputs = 1,
    .dtypes = kNumericTypes,
    .infer = infer_same,
    .compute = [](Kernel& k) { set(k, at::zeros(in(k).sizes(), in(k).options())); },
    .gradient = constant,
};

extern constexpr OpDef kOnesLike{
    .name = "OnesLike",
    .inputs = 1,
    .dtypes = kNumericTypes,
    .infer = infer_same,
    .compute = [](Kernel& k) { set(k, at::ones(in(k).sizes(), in(k).options())); },
    .gradient = constant,
};

extern constexpr OpDef kFillLike{
    .name = "FillLike",
    .inputs = 1,
    .dtypes = kNumericTypes,
    .attrs = {{"value", AttrKind::Float}},
    .infer = [](const OpInputs& inputs) -> Specs {
      require_representable(inputs.op, inputs.attrs.number("value"), inputs.dtype(0));
      return infer_same(inputs);
    },
    .compute =
        [](Kernel& k) {
          set(k, at::full(in(k).sizes(), k.attrs.number("value"), in(k).options()));
        },
    .gradient = constant,
};

extern constexpr OpDef kEye{
    .name = "Eye",
    .inputs = 0,
    .dtypes = kNumericTypes,
    .attrs = {{"rows", AttrKind::Int}, {"columns", AttrKind::Int}, {"dtype", AttrKind::DType}},
    .infer = [](const OpInputs& inputs) -> Specs {
      const int64_t rows = inputs.attrs.integer("rows");
      const int64_t columns = inputs.attrs.integer("columns");
      const auto dtype = inputs.attrs.get<DType>("dtype");
      require_size(inputs.op, rows, "the number of rows");
      require_size(inputs.op, columns, "the number of columns");
      to_aten(dtype);  // throws unless numeric
      require_creatable(inputs.op, {rows, columns}, dtype);
      return {{dtype, {rows, columns}}};
    },
    .compute =
        [](Kernel& k) {
          at::Tensor matrix =
              at::zeros({k.attrs.integer("rows"), k.attrs.integer("columns")}, options_of(k));
          matrix.diagonal().fill_(1);
          set(k, std::move(matrix));
        },
    .gradient = nullptr,
    .no_gradient_because = kConstant,
};

}  // namespace internal

Tensor zeros(const Shape& shape, DType dtype, Site site) {
  return internal::apply(internal::kZeros, {}, {{"shape", shape}, {"dtype", dtype}}, site);
}
Tensor ones(const Shape& shape, DType dtype, Site site) {
  return internal::apply(internal::kOnes, {}, {{"shape", shape}, {"dtype", dtype}}, site);
}
Tensor fill(const Shape& shape, const Tensor& value, Site site) {
  return internal::apply(internal::kFill, {value}, {{"shape", shape}}, site);
}
Tensor zeros_like(const Tensor& x, Site site) {
  return internal::apply(internal::kZerosLike, {x}, {}, site);
}
Tensor ones_like(const Tensor& x, Site site) {
  return internal::apply(internal::kOnesLike, {x}, {}, site);
}
Tensor fill_like(const Tensor& x, double value, Site site) {
  return internal::apply(internal::kFillLike, {x}, {{"value", value}}, site);
}
Tensor eye(int64_t rows, std::optional<int64_t> columns, DType dtype, Site site) {
  return internal::apply(internal::kEye, {},
                         {{"rows", rows}, {"columns", columns.value_or(rows)}, {"dtype", dtype}},
                         site);
}

}  // namespace cohort
