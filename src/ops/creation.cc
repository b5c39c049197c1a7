// Tensors out of nothing: zeros, ones, full, range, linspace, eye.

#include <cmath>
#include <concepts>

#include "base/raise.h"
#include "cohort/ops.h"
#include "ops/elementwise.h"

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

constexpr OpDef filled_op(std::string_view name, Compute compute) {
  return {.name = name,
          .inputs = 0,
          .dtypes = kNumericTypes,
          .attrs = kDeclaredAttrs,
          .infer = infer_filled,
          .compute = compute,
          .no_gradient_because = kConstant};
}

at::TensorOptions options_of(const Kernel& k) { return to_aten(k.attrs.get<DType>("dtype")); }

}  // namespace

extern constexpr OpDef kZeros = filled_op("Zeros", [](Kernel& k) {
  set(k, at::zeros(sizes(k.attrs.get<Shape>("shape")), options_of(k)));
});

extern constexpr OpDef kOnes = filled_op(
    "Ones", [](Kernel& k) { set(k, at::ones(sizes(k.attrs.get<Shape>("shape")), options_of(k))); });

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
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      return {sum_like(g[0], call.inputs[0])};
    },
};

extern constexpr OpDef kZerosLike = unary_op(
    "ZerosLike", kNumericTypes,
    [](Kernel& k) { set(k, at::zeros(in(k).sizes(), in(k).options())); }, no_slope);

extern constexpr OpDef kOnesLike = unary_op(
    "OnesLike", kNumericTypes, [](Kernel& k) { set(k, at::ones(in(k).sizes(), in(k).options())); },
    no_slope);

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
    .gradient = no_slope,
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
    .no_gradient_because = kConstant,
};

namespace {

void require_finite(std::string_view op, double value, std::string_view what) {
  if (std::isfinite(value)) return;
  raise(Code::InvalidArgument, "[{}] {} must be finite, got {}", op, what, value);
}

// How many numbers a range has.
int64_t range_count(const Attrs& attrs) {
  const double start = attrs.number("start");
  const double limit = attrs.number("limit");
  const double step = attrs.number("step");
  require_finite("Range", start, "the start");
  require_finite("Range", limit, "the limit");
  require_finite("Range", step, "the step");
  if (step == 0) raise(Code::InvalidArgument, "[Range] the step must not be 0");
  const double count = std::ceil((limit - start) / step);
  if (count > 0x1p46) {
    raise(Code::InvalidArgument, "[Range] {} to {} by {} has more numbers than fit into memory",
          start, limit, step);
  }
  return count > 0 ? static_cast<int64_t>(count) : 0;
}

void require_number(std::string_view op, DType dtype) {
  if (is_floating(dtype) || is_integer(dtype)) return;
  raise(Code::InvalidArgument, "[{}] the dtype must be a number, got {}", op, to_string(dtype));
}

// The nearest value of a floating type.
template <typename T>
T rounded(double value) {
  if constexpr (std::floating_point<T>) return static_cast<T>(value);
  return T(static_cast<float>(value));
}

// Integers are computed as such: beyond 2^53 a double would round them.
template <typename T>
T range_value(double start, double step, int64_t i) {
  if constexpr (std::integral<T>) {
    return static_cast<T>(static_cast<int64_t>(start) + i * static_cast<int64_t>(step));
  } else {
    return rounded<T>(start + static_cast<double>(i) * step);
  }
}

// A vector of `count` elements, element i being value(T{}, i).
template <typename Value>
at::Tensor generate(DType dtype, int64_t count, Value&& value) {
  at::Tensor result = at::empty({count}, to_aten(dtype));
  visit_numeric(dtype, [&]<typename T>(T kind) {
    auto* elements = static_cast<T*>(result.data_ptr());
    for (int64_t i = 0; i < count; ++i) elements[i] = value(kind, i);
  });
  return result;
}

}  // namespace

extern constexpr OpDef kRange{
    .name = "Range",
    .inputs = 0,
    .dtypes = kNumberTypes,
    .attrs = {{"start", AttrKind::Float},
              {"limit", AttrKind::Float},
              {"step", AttrKind::Float},
              {"dtype", AttrKind::DType}},
    .infer = [](const OpInputs& inputs) -> Specs {
      const auto dtype = inputs.attrs.get<DType>("dtype");
      require_number(inputs.op, dtype);
      const int64_t count = range_count(inputs.attrs);
      const double start = inputs.attrs.number("start");
      const double step = inputs.attrs.number("step");
      require_representable(inputs.op, start, dtype);
      if (count > 1) {
        require_representable(inputs.op, start + static_cast<double>(count - 1) * step, dtype);
        if (is_integer(dtype)) require_representable(inputs.op, step, kInt64);
      }
      require_creatable(inputs.op, {count}, dtype);
      return {{dtype, {count}}};
    },
    .compute =
        [](Kernel& k) {
          const double start = k.attrs.number("start");
          const double step = k.attrs.number("step");
          set(k,
              generate(k.attrs.get<DType>("dtype"), range_count(k.attrs),
                       [&]<typename T>(T, int64_t i) { return range_value<T>(start, step, i); }));
        },
    .no_gradient_because = kConstant,
};

extern constexpr OpDef kLinspace{
    .name = "Linspace",
    .inputs = 0,
    .dtypes = kFloatTypes,
    .attrs = {{"first", AttrKind::Float},
              {"last", AttrKind::Float},
              {"count", AttrKind::Int},
              {"dtype", AttrKind::DType}},
    .infer = [](const OpInputs& inputs) -> Specs {
      const auto dtype = inputs.attrs.get<DType>("dtype");
      const int64_t count = inputs.attrs.integer("count");
      if (!is_floating(dtype)) {
        raise(Code::InvalidArgument, "[Linspace] the dtype must be floating, got {}",
              to_string(dtype));
      }
      for (const std::string_view end : {"first", "last"}) {
        require_finite(inputs.op, inputs.attrs.number(end), end);
        require_representable(inputs.op, inputs.attrs.number(end), dtype);
      }
      require_size(inputs.op, count, "the count");
      require_creatable(inputs.op, {count}, dtype);
      return {{dtype, {count}}};
    },
    .compute =
        [](Kernel& k) {
          const double first = k.attrs.number("first");
          const double last = k.attrs.number("last");
          const int64_t count = k.attrs.integer("count");
          const double gaps = static_cast<double>(count > 1 ? count - 1 : 1);
          set(k, generate(k.attrs.get<DType>("dtype"), count, [&]<typename T>(T, int64_t i) {
                // Exact at both ends.
                return rounded<T>(std::lerp(first, last, static_cast<double>(i) / gaps));
              }));
        },
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

Tensor range(int64_t limit, DType dtype, Site site) {
  return range(0.0, static_cast<double>(limit), 1.0, dtype, site);
}

Tensor range(double start, double limit, double step, DType dtype, Site site) {
  return internal::apply(internal::kRange, {},
                         {{"start", start}, {"limit", limit}, {"step", step}, {"dtype", dtype}},
                         site);
}

Tensor linspace(double first, double last, int64_t count, DType dtype, Site site) {
  return internal::apply(internal::kLinspace, {},
                         {{"first", first}, {"last", last}, {"count", count}, {"dtype", dtype}},
                         site);
}

}  // namespace cohort
