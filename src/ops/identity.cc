// Ops that pass their input on: identity, stop_gradient, group, print, check_numerics, require.

#include <cstdio>

#include "base/raise.h"
#include "cohort/ops.h"
#include "ops/dispatch.h"
#include "ops/elementwise.h"
#include "tensor/memory.h"

namespace cohort {
namespace internal {
namespace {

// The same memory as a tensor of its own: a tape tells tensors apart by identity. Strings have no
// gradient, so there the tensor itself will do.
void pass_on(Kernel& k) {
  const Tensor& x = k.inputs[0];
  k.outputs[0] = x.dtype() == kString ? x : share_memory(x);
}

Gradients pass_back(const OpCall&, Grads g) { return {g[0]}; }

// identity() may copy to another device. The gradient of the input belongs where the input is.
Gradients copy_back(const OpCall& call, Grads g) {
  const Tensor& x = call.inputs[0];
  if (!has_gpus() || !g[0].defined() || g[0].is_symbolic() || x.is_symbolic()) return {g[0]};
  const Device& home = *body(x).device;
  if (body(g[0]).device->place == home.place) return {g[0]};
  const DeviceGuard there(home);
  return {identity(g[0])};
}

// One write, so that lines of several threads do not mix.
void write_line(const std::string& label, const Tensor& x) {
  const std::string line = (label.empty() ? "" : label + " ") + format_values(x) + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace

extern constexpr OpDef kIdentity =
    with_trait(unary_op("Identity", kAnyType, pass_on, copy_back), Trait::Copies);

extern constexpr OpDef kStopGradient = unary_op("StopGradient", kAnyType, pass_on, no_influence);

extern constexpr OpDef kGroup{
    .name = "Group",
    .inputs = {0, kAnyNumber},
    .dtypes = kAnyType | kResourceType,
    .infer = [](const OpInputs&) { return nothing(); },
    .compute = set_nothing,
    .no_gradient_because = "its result has no elements",
};

extern constexpr OpDef kPrint{
    .name = "Print",
    .inputs = 1,
    .dtypes = kAnyType,
    .attrs = {{"label", AttrKind::Text}},
    .infer = infer_same,
    .compute =
        [](Kernel& k) {
          write_line(k.attrs.get<std::string>("label"), k.inputs[0]);
          pass_on(k);
        },
    .gradient = pass_back,
    .traits = Trait::HasEffect | Trait::HostOnly,
};

extern constexpr OpDef kCheckNumerics =
    unary_op("CheckNumerics", kFloatTypes,
             [](Kernel& k) {
               if (const std::string found = describe_non_finite(k.inputs[0]); !found.empty()) {
                 raise(Code::InvalidArgument, "[CheckNumerics] {}: {}",
                       k.attrs.get<std::string>("label"), found);
               }
               pass_on(k);
             },
             pass_back, {{"label", AttrKind::Text}});

extern constexpr OpDef kRequire{
    .name = "Require",
    .inputs = 2,
    .dtypes = kAnyType,
    .attrs = {{"text", AttrKind::Text}},
    .infer = [](const OpInputs& inputs) -> Specs {
      if (inputs.dtype(1) != kBool || !inputs.shape(1).is_compatible_with(Shape{})) {
        raise(Code::InvalidArgument,
              "[{}] the condition must be a boolean scalar, got {} of shape {}", inputs.op,
              to_string(inputs.dtype(1)), inputs.shape(1).to_string());
      }
      return {{inputs.dtype(0), inputs.shape(0)}};
    },
    .compute =
        [](Kernel& k) {
          if (!k.inputs[1].to<bool>()) {
            raise(Code::InvalidArgument, "{}", k.attrs.get<std::string>("text"));
          }
          pass_on(k);
        },
    .gradient = [](const OpCall&, Grads g) -> Gradients {
      return {g[0], Gradient()};
    },
};

Tensor require_true(const Tensor& x, const Tensor& holds, const std::string& text) {
  return apply(kRequire, {x, holds}, {{"text", text}});
}

}  // namespace internal

using internal::apply;

Tensor identity(const Tensor& x, Site site) { return apply(internal::kIdentity, {x}, {}, site); }
Tensor stop_gradient(const Tensor& x, Site site) {
  return apply(internal::kStopGradient, {x}, {}, site);
}
Tensor group(const std::vector<Tensor>& parts, Site site) {
  return apply(internal::kGroup, parts, {}, site);
}
Tensor print(const Tensor& x, std::string_view label, Site site) {
  return apply(internal::kPrint, {x}, {{"label", std::string(label)}}, site);
}
Tensor check_numerics(const Tensor& x, std::string_view label, Site site) {
  return apply(internal::kCheckNumerics, {x}, {{"label", std::string(label)}}, site);
}

}  // namespace cohort
