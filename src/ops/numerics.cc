#include "ops/numerics.h"

#include <ATen/Functions.h>

#include "base/raise.h"
#include "cohort/ops.h"
#include "tensor/aten.h"

namespace cohort {
namespace internal {
namespace {

int& guard_depth() {
  thread_local int depth = 0;
  return depth;
}

}  // namespace

bool numerics_guarded() { return guard_depth() > 0; }

void check_outputs(const OpDef& op, std::span<const Tensor> outputs) {
  for (const Tensor& output : outputs) {
    if (!output.defined() || !is_floating(output.dtype())) continue;
    if (at::isfinite(aten(output)).all().item<bool>()) continue;
    raise(Code::InvalidArgument, "[{}] made a NaN or an infinity in an output of shape {}", op.name,
          output.shape().to_string());
  }
}

}  // namespace internal

NumericsGuard::NumericsGuard() { ++internal::guard_depth(); }
NumericsGuard::~NumericsGuard() { --internal::guard_depth(); }

}  // namespace cohort
