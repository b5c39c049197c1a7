// The ops of conditional accumulators. Dtype and shape of the gradients travel as attributes: a
// handle in a graph does not know them.

#include "base/raise.h"
#include "ops/conditional_accumulator.h"
#include "ops/kernel.h"

namespace cohort::internal {
namespace {

constexpr DTypeSet kHandleAndGradient = kNumberTypes | kResourceType;
constexpr std::string_view kState = "it changes state";

const std::string& accumulator_name(const Attrs& attrs) {
  return attrs.get<std::string>("accumulator");
}

void require_handle(const OpInputs& inputs) {
  if (inputs.dtype(0) == kResource) return;
  raise(Code::InvalidArgument, "[{}] input 0 must be an accumulator's handle, got {}", inputs.op,
        to_string(inputs.dtype(0)));
}

void require_integer(const OpInputs& inputs, size_t i, std::string_view what) {
  require_integers(inputs, i, what);
  require_compatible(inputs.op, inputs.shape(i), Shape{}, what);
}

// Input 1 has the accumulator's dtype and fits `shape`.
void require_gradient(const OpInputs& inputs, const Shape& shape) {
  const auto dtype = inputs.attrs.get<DType>("dtype");
  if (inputs.dtype(1) == dtype && inputs.shape(1).is_compatible_with(shape)) return;
  raise(Code::InvalidArgument, "[{}] accumulator '{}' takes {} {}, got {} {}", inputs.op,
        accumulator_name(inputs.attrs), to_string(dtype), shape.to_string(),
        to_string(inputs.dtype(1)), inputs.shape(1).to_string());
}

// The shape of some rows of a tensor of that shape.
Shape rows_shape(const OpInputs& inputs) {
  const auto& dense = inputs.attrs.get<Shape>("shape");
  if (!dense.has_rank()) return dense;
  require_rank_at_least(inputs.op, dense, 1, "the accumulator's shape");
  return dense.with(0, Shape::kUnknownDim);
}

// What stands behind the handle, which must be for what the op's attributes say.
template <typename T>
T& accumulator_of(const Kernel& k) {
  auto* found = dynamic_cast<T*>(resource_of(k.inputs[0]).get());
  if (found == nullptr) {
    raise(Code::InvalidArgument, "[Accumulator] the handle is not that of such an accumulator");
  }
  if (k.attrs.has("dtype") && k.attrs.get<DType>("dtype") != found->kind().dtype) {
    raise(Code::InvalidArgument, "[Accumulator] '{}' takes {}, but the op was made for {}",
          found->name(), to_string(found->kind().dtype), to_string(k.attrs.get<DType>("dtype")));
  }
  return *found;
}

template <typename T>
std::shared_ptr<Accumulator> find_accumulator(const Kernel& k, const std::string& kind) {
  const auto& name = k.attrs.get<std::string>("shared_name");
  const Accumulator::Kind wanted{.dtype = k.attrs.get<DType>("dtype"),
                                 .shape = k.attrs.get<Shape>("shape"),
                                 .mean = k.attrs.flag("mean")};
  return require_run(k.run, "AccumulatorHandle")
      .resources()
      .find_or_make<T>(k.attrs.get<std::string>("container"), kind, name,
                       [&] { return std::make_shared<T>(name, wanted); });
}

void check_kind(const Accumulator& found, const Attrs& attrs) {
  const Accumulator::Kind& kind = found.kind();
  const auto& shape = attrs.get<Shape>("shape");
  if (kind.dtype == attrs.get<DType>("dtype") && kind.mean == attrs.flag("mean") &&
      kind.shape.is_compatible_with(shape)) {
    return;
  }
  raise(Code::InvalidArgument, "[Accumulator] '{}' exists for the {} of {} {}, not the {} of {} {}",
        found.name(), kind.mean ? "mean" : "sum", to_string(kind.dtype), kind.shape.to_string(),
        attrs.flag("mean") ? "mean" : "sum", to_string(attrs.get<DType>("dtype")),
        shape.to_string());
}

}  // namespace

extern constexpr OpDef kAccumulatorHandle{
    .name = "AccumulatorHandle",
    .inputs = 0,
    .dtypes = kResourceType,
    .attrs = {{"dtype", AttrKind::DType},
              {"shape", AttrKind::Shape},
              {"mean", AttrKind::Bool},
              {"sparse", AttrKind::Bool},
              {"container", AttrKind::Text},
              {"shared_name", AttrKind::Text}},
    .infer = [](const OpInputs& inputs) -> Specs {
      const auto dtype = inputs.attrs.get<DType>("dtype");
      if (!is_floating(dtype)) {
        raise(Code::InvalidArgument, "[Accumulator] '{}' must take one of {}, not {}",
              inputs.attrs.get<std::string>("shared_name"), kFloatTypes.to_string(),
              to_string(dtype));
      }
      if (inputs.attrs.flag("sparse")) rows_shape(inputs);
      return {{kResource, Shape{}}};
    },
    .compute =
        [](Kernel& k) {
          const std::shared_ptr<Accumulator> found =
              k.attrs.flag("sparse") ? find_accumulator<SparseAccumulator>(k, "sparse_accumulator")
                                     : find_accumulator<DenseAccumulator>(k, "accumulator");
          check_kind(*found, k.attrs);
          k.outputs[0] = make_resource(found);
        },
    .no_gradient_because = "a handle has no value",
    .traits = Trait::HasEffect,
};

extern constexpr OpDef kAccumulatorApply{
    .name = "AccumulatorApply",
    .inputs = 3,
    .dtypes = kHandleAndGradient,
    .attrs = {{"accumulator", AttrKind::Text},
              {"dtype", AttrKind::DType},
              {"shape", AttrKind::Shape}},
    .infer = [](const OpInputs& inputs) -> Specs {
      require_handle(inputs);
      require_gradient(inputs, inputs.attrs.get<Shape>("shape"));
      require_integer(inputs, 2, "the local step");
      return nothing();
    },
    .compute =
        [](Kernel& k) {
          accumulator_of<DenseAccumulator>(k).apply(k.inputs[1], k.inputs[2].to<int64_t>());
          set_nothing(k);
        },
    .no_gradient_because = kState,
    .traits = Trait::HasEffect,
};

extern constexpr OpDef kAccumulatorTake{
    .name = "AccumulatorTake",
    .inputs = 2,
    .dtypes = kHandleAndGradient,
    .attrs = kDeclaredAttrs,
    .infer = [](const OpInputs& inputs) -> Specs {
      require_handle(inputs);
      require_integer(inputs, 1, "the number of gradients");
      return {{inputs.attrs.get<DType>("dtype"), inputs.attrs.get<Shape>("shape")}};
    },
    .compute =
        [](Kernel& k) {
          k.outputs[0] = accumulator_of<DenseAccumulator>(k).take(k.inputs[1].to<int64_t>(),
                                                                  cancellation_of(k.run));
        },
    .no_gradient_because = kState,
    .traits = Trait::HasEffect | Trait::MayWait,
};

extern constexpr OpDef kSparseAccumulatorApply{
    .name = "SparseAccumulatorApply",
    .inputs = 4,
    .dtypes = kHandleAndGradient,
    .attrs = {{"accumulator", AttrKind::Text},
              {"dtype", AttrKind::DType},
              {"shape", AttrKind::Shape}},
    .infer = [](const OpInputs& inputs) -> Specs {
      require_handle(inputs);
      require_gradient(inputs, rows_shape(inputs));
      require_integers(inputs, 2, "the indices");
      require_rank(inputs.op, inputs.shape(2), 1, "the indices");
      require_integer(inputs, 3, "the local step");
      return nothing();
    },
    .compute =
        [](Kernel& k) {
          accumulator_of<SparseAccumulator>(k).apply(k.inputs[1], k.inputs[2],
                                                     k.inputs[3].to<int64_t>());
          set_nothing(k);
        },
    .no_gradient_because = kState,
    .traits = Trait::HasEffect,
};

extern constexpr OpDef kSparseAccumulatorTake{
    .name = "SparseAccumulatorTake",
    .inputs = 2,
    .dtypes = kHandleAndGradient,
    .attrs = kDeclaredAttrs,
    .infer = [](const OpInputs& inputs) -> Specs {
      require_handle(inputs);
      require_integer(inputs, 1, "the number of gradients");
      return {{inputs.attrs.get<DType>("dtype"), rows_shape(inputs)},
              {kInt64, Shape{Shape::kUnknownDim}}};
    },
    .compute =
        [](Kernel& k) {
          SparseAccumulator::Rows rows = accumulator_of<SparseAccumulator>(k).take(
              k.inputs[1].to<int64_t>(), cancellation_of(k.run));
          k.outputs[0] = std::move(rows.values);
          k.outputs[1] = std::move(rows.indices);
        },
    .no_gradient_because = kState,
    .traits = Trait::HasEffect | Trait::MayWait,
};

extern constexpr OpDef kAccumulatorSetStep{
    .name = "AccumulatorSetStep",
    .inputs = 2,
    .dtypes = kHandleAndGradient,
    .infer = [](const OpInputs& inputs) -> Specs {
      require_handle(inputs);
      require_integer(inputs, 1, "the step");
      return nothing();
    },
    .compute =
        [](Kernel& k) {
          accumulator_of<Accumulator>(k).set_global_step(k.inputs[1].to<int64_t>());
          set_nothing(k);
        },
    .no_gradient_because = kState,
    .traits = Trait::HasEffect,
};

extern constexpr OpDef kAccumulatorLimit{
    .name = "AccumulatorLimit",
    .inputs = 2,
    .dtypes = kHandleAndGradient,
    .infer = [](const OpInputs& inputs) -> Specs {
      require_handle(inputs);
      require_integer(inputs, 1, "the limit");
      return nothing();
    },
    .compute =
        [](Kernel& k) {
          accumulator_of<Accumulator>(k).set_limit(k.inputs[1].to<int64_t>());
          set_nothing(k);
        },
    .no_gradient_because = kState,
    .traits = Trait::HasEffect,
};

extern constexpr OpDef kAccumulatorCancelTakes{
    .name = "AccumulatorCancelTakes",
    .inputs = 1,
    .dtypes = kResourceType,
    .infer = [](const OpInputs& inputs) -> Specs {
      require_handle(inputs);
      return nothing();
    },
    .compute =
        [](Kernel& k) {
          accumulator_of<Accumulator>(k).cancel_pending_takes();
          set_nothing(k);
        },
    .no_gradient_because = kState,
    .traits = Trait::HasEffect,
};

extern constexpr OpDef kAccumulatorCount{
    .name = "AccumulatorCount",
    .inputs = 1,
    .dtypes = kResourceType,
    .infer = [](const OpInputs& inputs) -> Specs {
      require_handle(inputs);
      return {{kInt64, Shape{}}};
    },
    .compute =
        [](Kernel& k) {
          set(k, at::scalar_tensor(accumulator_of<Accumulator>(k).num_accumulated(), at::kLong));
        },
    .no_gradient_because = kState,
    .traits = Trait::ReadsState,
};

}  // namespace cohort::internal
