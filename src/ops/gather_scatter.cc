// Rows of tensors, chosen by number: gather, scatter, repeat, one_hot and embedding_lookup.

#include <algorithm>
#include <cstring>

#include "cohort/nn_ops.h"
#include "cohort/ops.h"
#include "ops/all_ops.h"
#include "ops/kernel.h"
#include "ops/table_rows.h"

namespace cohort {
namespace internal {
namespace {

// Shape of x with dimension `axis` replaced by the shape of the indices.
Shape gathered(const OpInputs& inputs, const Shape& x, const Shape& indices) {
  if (!x.has_rank()) return x;
  const int axis = normalize_axis(inputs.op, inputs.attrs.integer("axis"), x.rank());
  if (!indices.has_rank()) return indices;
  require_possible_rank(inputs.op, x.rank() - 1 + indices.rank());
  Shape result;
  for (int i = 0; i < axis; ++i) result.push_back(x[i]);
  for (const int64_t size : indices) result.push_back(size);
  for (int i = axis + 1; i < x.rank(); ++i) result.push_back(x[i]);
  return result;
}

int64_t positive_axis(const Attrs& attrs, int64_t rank) {
  const int64_t axis = attrs.integer("axis");
  return axis < 0 ? axis + rank : axis;
}

// The gradient as rows of the table, whose shape is known and not empty.
IndexedSlices row_gradient(const Tensor& table, const Tensor& indices, const Tensor& g) {
  const Shape shape = table.shape();
  const bool counted = indices.shape().is_fully_known();
  return {.values = reshape(g, shape.with(0, counted ? indices.size() : -1)),
          .indices = reshape(cast(indices, kInt64), {-1}),
          .dense_shape = shape};
}

// What the values must be: the shape of the indices, then that of one row.
Shape values_shape(std::string_view op, const Shape& indices, const Shape& target) {
  if (!indices.has_rank()) return indices;
  require_possible_rank(op, indices.rank() + target.rank() - 1);
  Shape result = indices;
  for (int i = 1; i < target.rank(); ++i) result.push_back(target[i]);
  return result;
}

// The number of each row, as often as `counts` says. Throws InvalidArgument for a negative count.
at::Tensor repeated_numbers(const at::Tensor& counts) {
  const at::Tensor wanted = counts.to(at::kLong).contiguous();
  const int64_t* count = wanted.data_ptr<int64_t>();
  int64_t total = 0;
  for (int64_t i = 0; i < wanted.numel(); ++i) {
    require_size("Repeat", count[i], "a number of repetitions");
    total = checked_add("Repeat", total, count[i]);
  }
  require_allocatable("Repeat", Shape{total}, kInt64);
  at::Tensor numbers = at::empty({total}, at::kLong);
  int64_t* next = numbers.data_ptr<int64_t>();
  for (int64_t i = 0; i < wanted.numel(); ++i) next = std::fill_n(next, count[i], i);
  return numbers;
}

bool has_rows(const Shape& shape) {
  return shape.is_fully_known() && std::find(shape.begin(), shape.end(), 0) == shape.end();
}

}  // namespace

extern constexpr OpDef kGather{
    .name = "Gather",
    .inputs = 2,
    .dtypes = kAnyType,
    .attrs = {{"axis", AttrKind::Int}},
    .infer = [](const OpInputs& inputs) -> Specs {
      require_integers(inputs, 1, "the indices");
      const Shape shape = gathered(inputs, inputs.shape(0), inputs.shape(1));
      require_allocatable(inputs.op, shape, inputs.dtype(0));
      return {{inputs.dtype(0), shape}};
    },
    .compute =
        [](Kernel& k) {
          const at::Tensor x = movable(k.inputs[0]);
          const int64_t axis = positive_axis(k.attrs, x.dim());
          const at::Tensor rows = checked_rows("Gather", in(k, 1), x.size(axis));
          at::DimVector shape(x.sizes().begin(), x.sizes().begin() + axis);
          shape.append(in(k, 1).sizes().begin(), in(k, 1).sizes().end());
          shape.append(x.sizes().begin() + axis + 1, x.sizes().end());
          k.outputs[0] = from_moved(k.inputs[0], take_rows(x, axis, rows).view(shape));
        },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      const Tensor& x = call.inputs[0];
      const Tensor& indices = call.inputs[1];
      const Shape shape = x.shape();
      if (has_rows(shape) && positive_axis(call.attrs, shape.rank()) == 0) {
        return {row_gradient(x, indices, g[0]), {}};
      }
      return {apply(kGatherGrad, {g[0], indices, x}, call.attrs), {}};
    },
    .traits = Trait::HostKernel,
};

// Zeros like input 2 to which the rows of input 0 are added at input 1.
extern constexpr OpDef kGatherGrad{
    .name = "GatherGrad",
    .inputs = 3,
    .dtypes = kNumberTypes,
    .attrs = {{"axis", AttrKind::Int}},
    .infer = [](const OpInputs& inputs) -> Specs {
      require_integers(inputs, 1, "the indices");
      require_compatible(inputs.op, inputs.shape(0),
                         gathered(inputs, inputs.shape(2), inputs.shape(1)), "the gradient");
      return {{inputs.dtype(0), inputs.shape(2)}};
    },
    .compute =
        [](Kernel& k) {
          const at::Tensor& like = in(k, 2);
          const int64_t axis = positive_axis(k.attrs, like.dim());
          const at::Tensor rows = checked_rows("GatherGrad", in(k, 1), like.size(axis));
          set(k, add_rows(like.sizes(), axis, rows, in(k, 0)));
        },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      const auto axis = static_cast<int>(call.attrs.integer("axis"));
      return {gather(g[0], call.inputs[1], axis), {}, {}};
    },
    .traits = Trait::HostKernel,
};

extern constexpr OpDef kScatter{
    .name = "Scatter",
    .inputs = 2,
    .dtypes = kNumberTypes,
    .attrs = {{"shape", AttrKind::Shape}},
    .infer = [](const OpInputs& inputs) -> Specs {
      const auto& target = inputs.attrs.get<Shape>("shape");
      require_integers(inputs, 0, "the indices");
      require_creatable(inputs.op, target, inputs.dtype(1));
      require_rank_at_least(inputs.op, target, 1, "the result");
      require_compatible(inputs.op, inputs.shape(1),
                         values_shape(inputs.op, inputs.shape(0), target), "the values");
      return {{inputs.dtype(1), target}};
    },
    .compute =
        [](Kernel& k) {
          const auto& target = k.attrs.get<Shape>("shape");
          const at::Tensor rows = checked_rows("Scatter", in(k, 0), target[0]);
          set(k, add_rows(sizes(target), 0, rows, in(k, 1)));
        },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      return {{}, gather(g[0], call.inputs[0])};
    },
    .traits = Trait::HostKernel,
};

// Row i of input 0 as often as element i of input 1 says: none, one or several times. How many rows
// there are is known only when it runs.
extern constexpr OpDef kRepeat{
    .name = "Repeat",
    .inputs = 2,
    .dtypes = kAnyType,
    .infer = [](const OpInputs& inputs) -> Specs {
      require_integers(inputs, 1, "the numbers of repetitions");
      require_rank(inputs.op, inputs.shape(1), 1, "the numbers of repetitions");
      const Shape& x = inputs.shape(0);
      if (!x.has_rank()) return {{inputs.dtype(0), x}};
      require_rank_at_least(inputs.op, x, 1, "the input");
      if (inputs.shape(1).has_rank()) {
        require_compatible(inputs.op, inputs.shape(1), {x[0]}, "the numbers of repetitions");
      }
      return {{inputs.dtype(0), x.with(0, Shape::kUnknownDim)}};
    },
    .compute =
        [](Kernel& k) {
          const at::Tensor x = movable(k.inputs[0]);
          const at::Tensor rows = repeated_numbers(in(k, 1));
          const Shape row_shape = body(k.inputs[0]).shape;
          require_allocatable("Repeat", row_shape.with(0, rows.numel()), k.inputs[0].dtype());
          k.outputs[0] = from_moved(k.inputs[0], take_rows(x, 0, rows));
        },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      const Tensor& counts = call.inputs[1];
      const Tensor numbers = cumsum(ones_like(counts)) - 1;
      const Tensor rows = apply(kRepeat, {numbers, counts}, {});
      return {apply(kGatherGrad, {g[0], rows, call.inputs[0]}, {{"axis", int64_t{0}}}), {}};
    },
    .traits = Trait::HostKernel,
};

extern constexpr OpDef kOneHot{
    .name = "OneHot",
    .inputs = 1,
    .dtypes = kIntegerTypes,
    .attrs = {{"depth", AttrKind::Int}, {"dtype", AttrKind::DType}},
    .infer = [](const OpInputs& inputs) -> Specs {
      const int64_t depth = inputs.attrs.integer("depth");
      const auto dtype = inputs.attrs.get<DType>("dtype");
      require_size(inputs.op, depth, "the depth");
      to_aten(dtype);  // throws unless numeric
      Shape shape = inputs.shape(0);
      if (!shape.has_rank()) return {{dtype, shape}};
      require_possible_rank(inputs.op, shape.rank() + 1);
      shape.push_back(depth);
      if (shape.is_fully_known()) require_creatable(inputs.op, shape, dtype);
      return {{dtype, shape}};
    },
    .compute =
        [](Kernel& k) {
          const at::Tensor indices = in(k).to(at::kLong).contiguous();
          const int64_t depth = k.attrs.integer("depth");
          const at::ScalarType type = to_aten(k.attrs.get<DType>("dtype"));
          at::DimVector shape(indices.sizes().begin(), indices.sizes().end());
          shape.push_back(depth);
          at::Tensor result = at::zeros(shape, type);
          const at::Tensor one = at::ones({}, type);
          const auto width = static_cast<size_t>(one.element_size());
          auto* row = static_cast<char*>(result.data_ptr());
          const int64_t* index = indices.data_ptr<int64_t>();
          for (int64_t i = 0; i < indices.numel(); ++i, row += static_cast<size_t>(depth) * width) {
            if (index[i] < 0 || index[i] >= depth) continue;
            std::memcpy(row + static_cast<size_t>(index[i]) * width, one.data_ptr(), width);
          }
          set(k, std::move(result));
        },
    .no_gradient_because = "its input is a position",
    .traits = Trait::HostKernel,
};

}  // namespace internal

Tensor gather(const Tensor& x, const Tensor& indices, int axis, Site site) {
  return internal::apply(internal::kGather, {x, indices}, {{"axis", int64_t{axis}}}, site);
}

Tensor scatter(const Tensor& indices, const Tensor& values, const Shape& shape, Site site) {
  return internal::apply(internal::kScatter, {indices, values}, {{"shape", shape}}, site);
}

Tensor one_hot(const Tensor& indices, int64_t depth, DType dtype, Site site) {
  return internal::apply(internal::kOneHot, {indices}, {{"depth", depth}, {"dtype", dtype}}, site);
}

namespace nn {

Tensor embedding_lookup(const Tensor& table, const Tensor& ids, Site site) {
  return gather(table, ids, 0, site);
}

}  // namespace nn
}  // namespace cohort
