// Orderings of elements: sort, top_k, unique, and elements chosen by number along an axis.

#include <cmath>
#include <unordered_map>
#include <vector>

#include "base/raise.h"
#include "cohort/ops.h"
#include "kernels/row_order.h"
#include "ops/kernel.h"
#include "ops/table_rows.h"

namespace cohort {
namespace internal {
namespace {

// As order_rows() of numbers, along the last dimension.
struct Ordered {
  at::Tensor values;
  at::Tensor indices;
};

Ordered ordered_rows(const at::Tensor& x, int64_t keep, bool descending) {
  const at::Tensor dense = x.contiguous();
  at::DimVector shape(dense.sizes().begin(), dense.sizes().end());
  const int64_t length = shape.back();
  shape.back() = keep;
  const Ordered ordered{at::empty(shape, dense.options()), at::empty(shape, at::kLong)};
  order_rows({.dtype = from_aten(dense.scalar_type()),
              .rows = dense.data_ptr(),
              .count = length == 0 ? 0 : dense.numel() / length,
              .length = length,
              .descending = descending},
             keep, ordered.values.data_ptr(), ordered.indices.data_ptr<int64_t>());
  return ordered;
}

// The rows are those of `whole`, and only their length may differ.
void require_rows(const OpInputs& inputs, const Shape& whole, const Shape& indices) {
  if (!whole.has_rank()) return;
  const int axis = normalize_axis(inputs.op, inputs.attrs.integer("axis"), whole.rank());
  require_compatible(inputs.op, indices, whole.with(axis, Shape::kUnknownDim), "the indices");
}

int axis_of(const OpCall& call) { return static_cast<int>(call.attrs.integer("axis")); }

}  // namespace

extern constexpr OpDef kTakeAlong{
    .name = "TakeAlong",
    .inputs = 2,
    .dtypes = kNumericTypes,
    .attrs = {{"axis", AttrKind::Int}},
    .infer = [](const OpInputs& inputs) -> Specs {
      require_integers(inputs, 1, "the indices");
      require_rows(inputs, inputs.shape(0), inputs.shape(1));
      return {{inputs.dtype(0), inputs.shape(1)}};
    },
    .compute =
        [](Kernel& k) {
          set(k, at::gather(in(k, 0), k.attrs.integer("axis"), in(k, 1).to(at::kLong)));
        },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      return {add_along(g[0], call.inputs[1], call.inputs[0], axis_of(call)), {}};
    },
};

extern constexpr OpDef kAddAlong{
    .name = "AddAlong",
    .inputs = 3,
    .dtypes = kNumberTypes,
    .attrs = {{"axis", AttrKind::Int}},
    .infer = [](const OpInputs& inputs) -> Specs {
      require_integers(inputs, 1, "the indices");
      require_compatible(inputs.op, inputs.shape(0), inputs.shape(1), "the values");
      require_rows(inputs, inputs.shape(2), inputs.shape(1));
      return {{inputs.dtype(0), inputs.shape(2)}};
    },
    .compute =
        [](Kernel& k) {
          at::Tensor sum = at::zeros(in(k, 2).sizes(), in(k, 0).options());
          set(k, sum.scatter_add_(k.attrs.integer("axis"), in(k, 1).to(at::kLong), in(k, 0)));
        },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      return {take_along(g[0], call.inputs[1], axis_of(call)), {}, {}};
    },
};

Tensor take_along(const Tensor& x, const Tensor& indices, int axis) {
  return apply(kTakeAlong, {x, indices}, {{"axis", int64_t{axis}}});
}

Tensor add_along(const Tensor& x, const Tensor& indices, const Tensor& like, int axis) {
  return apply(kAddAlong, {x, indices, like}, {{"axis", int64_t{axis}}});
}

// Outputs the sorted values and where they were.
extern constexpr OpDef kSort{
    .name = "Sort",
    .inputs = 1,
    .dtypes = kNumericTypes,
    .attrs = {{"axis", AttrKind::Int}, {"descending", AttrKind::Bool}},
    .infer = [](const OpInputs& inputs) -> Specs {
      const Shape& shape = inputs.shape(0);
      if (shape.has_rank()) normalize_axis(inputs.op, inputs.attrs.integer("axis"), shape.rank());
      return {{inputs.dtype(0), shape}, {kInt64, shape}};
    },
    .compute =
        [](Kernel& k) {
          const int64_t axis = k.attrs.integer("axis");
          const at::Tensor rows = in(k).movedim(axis, -1);
          const Ordered ordered = ordered_rows(rows, rows.size(-1), k.attrs.flag("descending"));
          set(k, ordered.values.movedim(-1, axis), 0);
          set(k, ordered.indices.movedim(-1, axis), 1);
        },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      return {add_along(g[0], call.outputs[1], call.inputs[0], axis_of(call))};
    },
    .traits = Trait::HostKernel,
};

namespace {

std::vector<Tensor> sorted(const Tensor& x, int axis, SortOrder order, Site site) {
  return apply_many(kSort, {&x, 1},
                    {{"axis", int64_t{axis}}, {"descending", order == SortOrder::Descending}},
                    site);
}

}  // namespace

extern constexpr OpDef kTopK{
    .name = "TopK",
    .inputs = 1,
    .dtypes = kNumericTypes,
    .attrs = {{"k", AttrKind::Int}},
    .infer = [](const OpInputs& inputs) -> Specs {
      const Shape& shape = inputs.shape(0);
      const int64_t k = inputs.attrs.integer("k");
      require_rank_at_least(inputs.op, shape, 1, "the tensor");
      require_size(inputs.op, k, "k");
      if (!shape.has_rank()) return {{inputs.dtype(0), shape}, {kInt64, shape}};
      if (shape[-1] >= 0 && k > shape[-1]) {
        raise(Code::InvalidArgument, "[TopK] k is {}, but the last dimension of shape {} has {}", k,
              shape.to_string(), shape[-1]);
      }
      const Shape result = shape.with(-1, k);
      return {{inputs.dtype(0), result}, {kInt64, result}};
    },
    .compute =
        [](Kernel& k) {
          Ordered ordered = ordered_rows(in(k), k.attrs.integer("k"), true);
          set(k, std::move(ordered.values), 0);
          set(k, std::move(ordered.indices), 1);
        },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      return {add_along(g[0], call.outputs[1], call.inputs[0], -1)};
    },
    .traits = Trait::HostKernel,
};

namespace {

// Which elements are equal. Groups are numbered in the order of their first elements.
struct Groups {
  std::vector<int64_t> firsts;   // per group: position of its first element
  std::vector<int64_t> counts;   // per group: number of its elements
  std::vector<int64_t> inverse;  // per element: its group
};

bool equals_nothing(double key) { return std::isnan(key); }
template <typename Key>
bool equals_nothing(const Key&) {
  return false;
}

template <typename Key>
Groups group_equal(std::span<const Key> keys) {
  Groups groups;
  groups.inverse.reserve(keys.size());
  std::unordered_map<Key, int64_t> known;
  for (size_t i = 0; i < keys.size(); ++i) {
    auto group = static_cast<int64_t>(groups.firsts.size());
    // NaNs would all meet in one bucket of the map.
    if (!equals_nothing(keys[i])) group = known.try_emplace(keys[i], group).first->second;
    if (group == static_cast<int64_t>(groups.firsts.size())) {
      groups.firsts.push_back(static_cast<int64_t>(i));
      groups.counts.push_back(0);
    }
    ++groups.counts[static_cast<size_t>(group)];
    groups.inverse.push_back(group);
  }
  return groups;
}

// Numbers are compared in the widest type of their kind, which holds all of them exactly.
Groups groups_of(const Tensor& x) {
  if (x.dtype() == kString) {
    const std::vector<std::string>& texts = strings(x);
    return group_equal(std::span<const std::string_view>(
        std::vector<std::string_view>(texts.begin(), texts.end())));
  }
  const auto count = static_cast<size_t>(aten(x).numel());
  if (is_floating(x.dtype())) {
    const at::Tensor keys = aten(x).to(at::kDouble).contiguous();
    return group_equal(std::span<const double>(keys.data_ptr<double>(), count));
  }
  const at::Tensor keys = aten(x).to(at::kLong).contiguous();
  return group_equal(std::span<const int64_t>(keys.data_ptr<int64_t>(), count));
}

}  // namespace

extern constexpr OpDef kUnique{
    .name = "Unique",
    .inputs = 1,
    .dtypes = kAnyType,
    .infer = [](const OpInputs& inputs) -> Specs {
      const Shape some{Shape::kUnknownDim};
      return {{inputs.dtype(0), some}, {kInt64, inputs.shape(0)}, {kInt64, some}};
    },
    .compute =
        [](Kernel& k) {
          const Tensor& x = k.inputs[0];
          const Groups groups = groups_of(x);
          const at::Tensor flat = movable(x).reshape({-1});
          k.outputs[0] = from_moved(x, flat.index_select(0, at::tensor(groups.firsts, at::kLong)));
          set(k, at::tensor(groups.inverse, at::kLong).view(sizes(body(x).shape)), 1);
          set(k, at::tensor(groups.counts, at::kLong), 2);
        },
    .no_gradient_because = "its result changes in steps",
    .traits = Trait::HostKernel,
};

}  // namespace internal

Tensor sort(const Tensor& x, int axis, SortOrder order, Site site) {
  return internal::sorted(x, axis, order, site)[0];
}

Tensor argsort(const Tensor& x, int axis, SortOrder order, Site site) {
  return internal::sorted(x, axis, order, site)[1];
}

TopK top_k(const Tensor& x, int64_t k, Site site) {
  const std::vector<Tensor> outputs =
      internal::apply_many(internal::kTopK, {&x, 1}, {{"k", k}}, site);
  return {outputs[0], outputs[1]};
}

Unique unique(const Tensor& x, Site site) {
  const std::vector<Tensor> outputs = internal::apply_many(internal::kUnique, {&x, 1}, {}, site);
  return {outputs[0], outputs[1], outputs[2]};
}

}  // namespace cohort
