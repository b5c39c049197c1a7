#include "ops/numerics.h"

#include <ATen/Functions.h>

#include "base/raise.h"
#include "base/thread_context.h"
#include "cohort/ops.h"
#include "tensor/aten.h"

namespace cohort {
namespace internal {
namespace {

constinit ContextSlot<int> numerics_guards;  // how many are open

std::string described(const NonFinite& found, const Tensor& x) {
  return fmt::format("{} NaN and {} infinite among {} values of shape {}", found.nans,
                     found.infinities, x.size(), x.shape().to_string());
}

[[noreturn]] void raise_non_finite(const OpDef& op, std::span<const Tensor> inputs,
                                   const NonFinite& made, const Tensor& output) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const NonFinite found = count_non_finite(inputs[i]);
    if (!found.any()) continue;
    raise(Code::InvalidArgument,
          "[{}] input {} already had {}, from before the check began; the output has {}", op.name,
          i, described(found, inputs[i]), described(made, output));
  }
  raise(Code::InvalidArgument, "[{}] made {} from finite inputs", op.name, described(made, output));
}

}  // namespace

NonFinite count_non_finite(const Tensor& x) {
  if (!x.defined() || !is_floating(x.dtype())) return {};
  const at::Tensor& value = aten(x);
  if (at::isfinite(value).all().item<bool>()) return {};
  return {.nans = at::isnan(value).sum().item<int64_t>(),
          .infinities = at::isinf(value).sum().item<int64_t>()};
}

bool numerics_guarded() { return numerics_guards.get() > 0; }

void check_outputs(const OpDef& op, std::span<const Tensor> inputs,
                   std::span<const Tensor> outputs) {
  for (const Tensor& output : outputs) {
    const NonFinite made = count_non_finite(output);
    if (made.any()) raise_non_finite(op, inputs, made, output);
  }
}

}  // namespace internal

NumericsGuard::NumericsGuard() { ++internal::numerics_guards.get(); }
NumericsGuard::~NumericsGuard() { --internal::numerics_guards.get(); }

}  // namespace cohort
