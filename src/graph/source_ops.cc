// Nodes without inputs that only graphs have: placeholders, constants, and a function's arguments.

#include "base/raise.h"
#include "cohort/graph.h"
#include "cohort/ops.h"
#include "graph/graph_impl.h"
#include "ops/all_ops.h"
#include "ops/infer.h"
#include "tensor/memory.h"

namespace cohort {
namespace internal {
namespace {

constexpr std::string_view kNoInputs = "it has no inputs";

// Adds a node under a name of the user's choice.
Tensor add_named(std::string_view name, const OpDef& op, std::span<const Tensor> inputs,
                 Attrs attrs, const Specs& outputs, Site site) {
  return GraphAccess::impl(get_default_graph())
      ->append_named(name, op, inputs, std::move(attrs), outputs, site)[0];
}

}  // namespace

extern constexpr OpDef kPlaceholder{
    .name = "Placeholder",
    .inputs = 0,
    .dtypes = kAnyType,
    .attrs = kDeclaredAttrs,
    .infer = infer_declared,
    .compute = [](Kernel&) { raise(Code::InvalidArgument, "[Placeholder] no value was fed"); },
    .no_gradient_because = kNoInputs,
    .traits = Trait::Source | Trait::Placeholder,
};

extern constexpr OpDef kPlaceholderWithDefault{
    .name = "PlaceholderWithDefault",
    .inputs = 1,
    .dtypes = kAnyType,
    .attrs = {{"shape", AttrKind::Shape}},
    .infer = [](const OpInputs& inputs) -> Specs {
      return {{inputs.dtype(0), inputs.attrs.get<Shape>("shape")}};
    },
    // As a tensor of its own, which tapes tell from the input.
    .compute = [](Kernel& k) { kIdentity.compute(k); },
    .gradient = [](const OpCall&, std::span<const Tensor> g) -> Gradients { return {g[0]}; },
    .traits = Trait::Placeholder,
};

extern constexpr OpDef kConst{
    .name = "Const",
    .inputs = 0,
    .dtypes = kAnyType,
    .attrs = {{"value", AttrKind::Tensor}},
    .infer = [](const OpInputs& inputs) -> Specs {
      const auto& value = inputs.attrs.get<Tensor>("value");
      return {{value.dtype(), value.shape()}};
    },
    .compute = [](Kernel& k) { k.outputs[0] = k.attrs.get<Tensor>("value"); },
    .no_gradient_because = kNoInputs,
};

// An argument of a function; the caller of the body sets it.
extern constexpr OpDef kArgument{
    .name = "Argument",
    .inputs = 0,
    .dtypes = kAnyType | kResourceType,
    .attrs = kDeclaredAttrs,
    .infer = infer_declared,
    .compute = [](Kernel&) { raise(Code::Internal, "[Argument] the function was not called"); },
    .no_gradient_because = kNoInputs,
    .traits = Trait::Source,
};

}  // namespace internal

Tensor placeholder(DType dtype, const Shape& shape, std::string_view name, Site site) {
  return internal::add_named(name, internal::kPlaceholder, {}, {{"dtype", dtype}, {"shape", shape}},
                             {{dtype, shape}}, site);
}

Tensor placeholder_with_default(const Tensor& value, const Shape& shape, std::string_view name,
                                Site site) {
  if (!value.shape().is_compatible_with(shape)) {
    internal::raise(Code::InvalidArgument,
                    "[PlaceholderWithDefault] the default has shape {}, which is not {}",
                    value.shape().to_string(), shape.to_string());
  }
  return internal::add_named(name, internal::kPlaceholderWithDefault, {&value, 1},
                             {{"shape", shape}}, {{value.dtype(), shape}}, site);
}

Tensor constant(const Tensor& value, std::string_view name, Site site) {
  if (!building_graph()) return value;
  if (value.is_symbolic()) return identity(value, site);  // it is a node already
  return internal::add_named(name, internal::kConst, {}, {{"value", internal::constant_of(value)}},
                             {{value.dtype(), value.shape()}}, site);
}

}  // namespace cohort
