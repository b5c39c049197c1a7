#include "ops/conditional_accumulator.h"

#include <ATen/Functions.h>

#include <numeric>
#include <utility>

#include "base/log.h"
#include "base/raise.h"
#include "ops/kernel.h"
#include "ops/table_rows.h"
#include "tensor/aten.h"

namespace cohort::internal {

void Accumulator::set_global_step(int64_t step) {
  const std::lock_guard lock(mutex_);
  if (step < step_) {
    log_warning("[Accumulator] '{}' goes back from step {} to {}", name_, step_, step);
  }
  step_ = step;
}

void Accumulator::raise_cancelled() const {
  raise(Code::Cancelled, "[Accumulator] the takes that waited for gradients of '{}' were cancelled",
        name_);
}

std::string Accumulator::waits_for(int64_t required) const {
  return fmt::format("[Accumulator] take from '{}', which has {} of {} gradients", name_, count_,
                     required);
}

void Accumulator::check_required(int64_t required) const {
  if (required > 0) return;
  raise(Code::InvalidArgument, "[Accumulator] at least 1 gradient must be taken from '{}', got {}",
        name_, required);
}

void Accumulator::fix_shape(const Shape& shape) {
  if (!shape.is_compatible_with(shape_)) {
    raise(Code::InvalidArgument, "[Accumulator] gradients of '{}' have shape {}, got {}", name_,
          shape_.to_string(), shape.to_string());
  }
  shape_ = shape_.merged_with(shape);
}

// Accumulators add up on the host, whichever device the gradients come from.
static at::Tensor on_host(const Tensor& value) { return at_place(aten(value), {}); }

void DenseAccumulator::apply(const Tensor& gradient, int64_t local_step) {
  const ScopedKernel kernel;
  const at::Tensor given = on_host(gradient);
  accumulate(local_step, [&] {
    fix_shape(gradient.shape());
    if (num_held() == 0) {
      sum_ = given;
      owned_ = false;
    } else if (owned_) {
      sum_.add_(given);
    } else {
      sum_ = sum_.add(given);
      owned_ = true;
    }
  });
}

Tensor DenseAccumulator::take(int64_t required, Cancellation& cancellation) {
  const ScopedKernel kernel;
  at::Tensor sum;
  bool owned = false;
  int64_t count = 1;
  take_when(required, cancellation, [&](int64_t held) {
    sum = std::move(sum_);
    owned = owned_;
    count = held;
  });
  if (!kind().mean || count == 1) return from_aten(std::move(sum));
  return from_aten(owned ? sum.div_(count) : sum.div(count));
}

namespace {

// Throws InvalidArgument for an index that no row can have.
void check_indices(const std::string& name, const at::Tensor& indices, const Shape& dense) {
  const int64_t* index = indices.data_ptr<int64_t>();
  const int64_t rows = dense[0];
  for (int64_t i = 0; i < indices.numel(); ++i) {
    if (index[i] >= 0 && (rows < 0 || index[i] < rows)) continue;
    raise(Code::InvalidArgument, "[Accumulator] index {} is not a row of '{}', whose shape is {}",
          index[i], name, dense.to_string());
  }
}

}  // namespace

// The slot of each index; a new index gets a new slot. Every row is counted once.
at::Tensor SparseAccumulator::slots_for(const at::Tensor& indices) {
  at::Tensor slots = at::empty_like(indices);
  const int64_t* index = indices.data_ptr<int64_t>();
  int64_t* slot = slots.data_ptr<int64_t>();
  for (int64_t i = 0; i < indices.numel(); ++i) {
    const auto [entry, fresh] =
        held_.slots.try_emplace(index[i], static_cast<int64_t>(held_.rows.size()));
    if (fresh) held_.rows.push_back({.index = index[i]});
    slot[i] = entry->second;
    Row& row = held_.rows[static_cast<size_t>(slot[i])];
    if (row.last != num_held()) ++row.gradients;
    row.last = num_held();
  }
  return slots;
}

void SparseAccumulator::make_room(const at::Tensor& values) {
  const auto needed = static_cast<int64_t>(held_.rows.size());
  const int64_t has = held_.sums.defined() ? held_.sums.size(0) : 0;
  if (needed <= has && held_.sums.defined()) return;
  std::vector<int64_t> sizes = values.sizes().vec();
  sizes[0] = std::max(needed, 2 * has);
  const at::Tensor larger = at::zeros(sizes, values.options());
  if (has > 0) larger.narrow(0, 0, has).copy_(held_.sums);
  held_.sums = larger;
}

void SparseAccumulator::apply(const Tensor& values, const Tensor& indices, int64_t local_step) {
  const ScopedKernel kernel;
  const at::Tensor rows = on_host(indices).to(at::kLong).contiguous();
  const at::Tensor given = on_host(values).contiguous();
  if (given.dim() < 1 || rows.dim() != 1 || given.size(0) != rows.size(0)) {
    raise(Code::InvalidArgument,
          "[Accumulator] rows for '{}' need one index per row of values, got values of shape {} "
          "and indices of shape {}",
          name(), values.shape().to_string(), indices.shape().to_string());
  }
  accumulate(local_step, [&] {
    const bool sized = shape().has_rank() && shape().rank() > 0;
    const Shape dense = values.shape().with(0, sized ? shape()[0] : Shape::kUnknownDim);
    check_indices(name(), rows, dense);
    fix_shape(dense);
    const at::Tensor slots = slots_for(rows);
    make_room(given);
    add_to_rows(held_.sums, 0, slots, given);
  });
}

SparseAccumulator::Rows SparseAccumulator::result(Held held, bool mean) {
  const auto count = static_cast<int64_t>(held.rows.size());
  at::Tensor order = at::empty({count}, at::kLong);
  int64_t* slot = order.data_ptr<int64_t>();
  std::iota(slot, slot + count, 0);
  const auto row = [&](int64_t at) -> const Row& { return held.rows[static_cast<size_t>(at)]; };
  std::sort(slot, slot + count, [&](int64_t a, int64_t b) { return row(a).index < row(b).index; });
  at::Tensor values = take_rows(held.sums, 0, order);
  at::Tensor indices = at::empty({count}, at::kLong);
  at::Tensor gradients = at::empty({count}, at::kLong);
  for (int64_t i = 0; i < count; ++i) {
    indices.data_ptr<int64_t>()[i] = row(slot[i]).index;
    gradients.data_ptr<int64_t>()[i] = row(slot[i]).gradients;
  }
  if (mean) {
    std::vector<int64_t> sizes(static_cast<size_t>(values.dim()), 1);
    sizes[0] = count;
    values.div_(gradients.view(sizes));
  }
  return {from_aten(std::move(values)), from_aten(std::move(indices))};
}

SparseAccumulator::Rows SparseAccumulator::take(int64_t required, Cancellation& cancellation) {
  const ScopedKernel kernel;
  Held held;
  take_when(required, cancellation, [&](int64_t) { held = std::exchange(held_, {}); });
  return result(std::move(held), kind().mean);
}

// The ops. Dtype and shape of the gradients are attributes: a handle in a graph does not know
// them.
namespace {

void require_integer(const OpInputs& inputs, size_t i, std::string_view what) {
  require_integers(inputs, i, what);
  require_compatible(inputs.op, inputs.shape(i), Shape{}, what);
}

// The infer function of an op on the handle and one number.
Specs require_number(const OpInputs& inputs, std::string_view what) {
  require_handle(inputs, "an accumulator's");
  require_integer(inputs, 1, what);
  return nothing();
}

// Input 1 has the accumulator's dtype and fits `shape`.
void require_gradient(const OpInputs& inputs, const Shape& shape) {
  const Spec wanted{inputs.attrs.get<DType>("dtype"), shape};
  if (inputs.spec(1).is_compatible_with(wanted)) return;
  raise(Code::InvalidArgument, "[{}] accumulator '{}' takes {}, got {}", inputs.op,
        inputs.attrs.get<std::string>("accumulator"), wanted.to_string(),
        inputs.spec(1).to_string());
}

// The shape of some rows of a tensor of that shape.
Shape rows_shape(const OpInputs& inputs) {
  const auto& dense = inputs.attrs.get<Shape>("shape");
  if (!dense.has_rank()) return dense;
  require_rank_at_least(inputs.op, dense, 1, "the accumulator's shape");
  return dense.with(0, Shape::kUnknownDim);
}

// The accumulator of the handle. Throws InvalidArgument unless the op was made for its dtype.
template <typename T>
T& accumulator_of(const Kernel& k) {
  auto* found = dynamic_cast<T*>(resource_of(k.inputs[0]).get());
  if (found == nullptr) {
    raise(Code::InvalidArgument,
          "[Accumulator] the handle is not an accumulator's, or the accumulator is of another kind "
          "(dense or sparse)");
  }
  if (k.attrs.has("dtype") && k.attrs.get<DType>("dtype") != found->kind().dtype) {
    raise(Code::InvalidArgument, "[Accumulator] '{}' takes {}, but the op was made for {}",
          found->name(), to_string(found->kind().dtype), to_string(k.attrs.get<DType>("dtype")));
  }
  return *found;
}

template <typename T>
std::shared_ptr<Accumulator> find_accumulator(const Kernel& k, const std::string& kind) {
  return find_shared<T>(k, "AccumulatorHandle", kind, [&](const std::string& name) {
    const Accumulator::Kind wanted{.dtype = k.attrs.get<DType>("dtype"),
                                   .shape = k.attrs.get<Shape>("shape"),
                                   .mean = k.attrs.flag("mean")};
    return std::make_shared<T>(name, wanted);
  });
}

void check_kind(const Accumulator& found, const Attrs& attrs) {
  const bool mean = found.kind().mean;
  const Spec kept{found.kind().dtype, found.kind().shape};
  const Spec wanted{attrs.get<DType>("dtype"), attrs.get<Shape>("shape")};
  if (mean == attrs.flag("mean") && kept.is_compatible_with(wanted)) return;
  raise(Code::InvalidArgument,
        "[Accumulator] '{}' already exists for the {} of {}, not the {} of {}", found.name(),
        mean ? "mean" : "sum", kept.to_string(), attrs.flag("mean") ? "mean" : "sum",
        wanted.to_string());
}

constexpr AttrList kGradientAttrs = AttrList{{"accumulator", AttrKind::Text}} + kDeclaredAttrs;

constexpr OpDef accumulator_op(std::string_view name, int inputs, const AttrList& attrs,
                               Infer infer, Compute compute, Traits traits = Trait::HasEffect) {
  return {.name = name,
          .inputs = inputs,
          .dtypes = inputs == 1 ? kResourceType : kNumberTypes | kResourceType,
          .attrs = attrs,
          .infer = infer,
          .compute = compute,
          .no_gradient_because = "it changes state",
          .traits = traits | Trait::HostKernel};
}

}  // namespace

extern constexpr OpDef kAccumulatorHandle = handle_op(
    "AccumulatorHandle",
    kDeclaredAttrs + AttrList{{"mean", AttrKind::Bool}, {"sparse", AttrKind::Bool}},
    [](const OpInputs& inputs) -> Specs {
      const auto dtype = inputs.attrs.get<DType>("dtype");
      if (!is_floating(dtype)) {
        raise(Code::InvalidArgument, "[Accumulator] the dtype of '{}' must be one of {}, got {}",
              inputs.attrs.get<std::string>("shared_name"), kFloatTypes.to_string(),
              to_string(dtype));
      }
      if (inputs.attrs.flag("sparse")) rows_shape(inputs);
      return {{kResource, Shape{}}};
    },
    [](Kernel& k) {
      const std::shared_ptr<Accumulator> found =
          k.attrs.flag("sparse") ? find_accumulator<SparseAccumulator>(k, "sparse_accumulator")
                                 : find_accumulator<DenseAccumulator>(k, "accumulator");
      check_kind(*found, k.attrs);
      k.outputs[0] = make_resource(found);
    });

extern constexpr OpDef kAccumulatorApply = accumulator_op(
    "AccumulatorApply", 3, kGradientAttrs,
    [](const OpInputs& inputs) -> Specs {
      require_handle(inputs, "an accumulator's");
      require_gradient(inputs, inputs.attrs.get<Shape>("shape"));
      require_integer(inputs, 2, "the local step");
      return nothing();
    },
    [](Kernel& k) {
      accumulator_of<DenseAccumulator>(k).apply(k.inputs[1], k.inputs[2].to<int64_t>());
      set_nothing(k);
    });

extern constexpr OpDef kAccumulatorTake = accumulator_op(
    "AccumulatorTake", 2, kDeclaredAttrs,
    [](const OpInputs& inputs) -> Specs {
      require_number(inputs, "the number of gradients");
      return infer_declared(inputs);
    },
    [](Kernel& k) {
      k.outputs[0] = accumulator_of<DenseAccumulator>(k).take(k.inputs[1].to<int64_t>(),
                                                              cancellation_of(k.run));
    },
    Trait::HasEffect | Trait::MayWait);

extern constexpr OpDef kSparseAccumulatorApply = accumulator_op(
    "SparseAccumulatorApply", 4, kGradientAttrs,
    [](const OpInputs& inputs) -> Specs {
      require_handle(inputs, "an accumulator's");
      require_gradient(inputs, rows_shape(inputs));
      require_integers(inputs, 2, "the indices");
      require_rank(inputs.op, inputs.shape(2), 1, "the indices");
      require_integer(inputs, 3, "the local step");
      return nothing();
    },
    [](Kernel& k) {
      accumulator_of<SparseAccumulator>(k).apply(k.inputs[1], k.inputs[2],
                                                 k.inputs[3].to<int64_t>());
      set_nothing(k);
    });

extern constexpr OpDef kSparseAccumulatorTake = accumulator_op(
    "SparseAccumulatorTake", 2, kDeclaredAttrs,
    [](const OpInputs& inputs) -> Specs {
      require_number(inputs, "the number of gradients");
      return {{inputs.attrs.get<DType>("dtype"), rows_shape(inputs)},
              {kInt64, Shape{Shape::kUnknownDim}}};
    },
    [](Kernel& k) {
      SparseAccumulator::Rows rows = accumulator_of<SparseAccumulator>(k).take(
          k.inputs[1].to<int64_t>(), cancellation_of(k.run));
      k.outputs[0] = std::move(rows.values);
      k.outputs[1] = std::move(rows.indices);
    },
    Trait::HasEffect | Trait::MayWait);

extern constexpr OpDef kAccumulatorSetStep = accumulator_op(
    "AccumulatorSetStep", 2, {},
    [](const OpInputs& inputs) { return require_number(inputs, "the step"); },
    [](Kernel& k) {
      accumulator_of<Accumulator>(k).set_global_step(k.inputs[1].to<int64_t>());
      set_nothing(k);
    });

extern constexpr OpDef kAccumulatorLimit = accumulator_op(
    "AccumulatorLimit", 2, {},
    [](const OpInputs& inputs) { return require_number(inputs, "the limit"); },
    [](Kernel& k) {
      accumulator_of<Accumulator>(k).set_limit(k.inputs[1].to<int64_t>());
      set_nothing(k);
    });

extern constexpr OpDef kAccumulatorCancelTakes = accumulator_op(
    "AccumulatorCancelTakes", 1, {},
    [](const OpInputs& inputs) -> Specs {
      require_handle(inputs, "an accumulator's");
      return nothing();
    },
    [](Kernel& k) {
      accumulator_of<Accumulator>(k).cancel_pending_takes();
      set_nothing(k);
    });

extern constexpr OpDef kAccumulatorCount = accumulator_op(
    "AccumulatorCount", 1, {},
    [](const OpInputs& inputs) -> Specs {
      require_handle(inputs, "an accumulator's");
      return {{kInt64, Shape{}}};
    },
    [](Kernel& k) {
      set(k, at::scalar_tensor(accumulator_of<Accumulator>(k).num_accumulated(), at::kLong));
    },
    Trait::ReadsState);

}  // namespace cohort::internal
