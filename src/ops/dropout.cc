#include <ATen/Dispatch.h>

#include <limits>

#include "base/raise.h"
#include "cohort/nn_ops.h"
#include "cohort/random.h"
#include "kernels/random_values.h"
#include "ops/dispatch.h"
#include "ops/kernel.h"

namespace cohort {
namespace internal {
namespace {

Specs infer_mask(const OpInputs& inputs) {
  const double rate = inputs.attrs.number("rate");
  if (!(rate >= 0 && rate < 1)) {
    raise(Code::InvalidArgument, "[Dropout] the rate must be at least 0 and less than 1, got {}",
          rate);
  }
  if (!is_floating(inputs.dtype(0))) {
    raise(Code::InvalidArgument, "[Dropout] the input must be floating, got {}",
          to_string(inputs.dtype(0)));
  }
  if (inputs.dtype(1) != kInt64 || !inputs.shape(1).is_compatible_with(Shape{2})) {
    raise(Code::InvalidArgument, "[Dropout] the key must be int64 of shape (2,), got {} of {}",
          to_string(inputs.dtype(1)), inputs.shape(1).to_string());
  }
  return infer_same(inputs);
}

void compute_mask(Kernel& k) {
  const at::Tensor key = in(k, 1).contiguous();
  require_count("Dropout", 2, key.numel());
  const bool narrow = is_narrow(in(k));
  at::Tensor mask =
      at::empty(in(k).sizes(), in(k).options().dtype(narrow ? at::kFloat : in(k).scalar_type()));
  AT_DISPATCH_FLOATING_TYPES(mask.scalar_type(), "dropout", [&] {
    fill_dropout_mask(key.data_ptr<int64_t>(), k.attrs.number("rate"), mask.numel(),
                      mask.data_ptr<scalar_t>());
  });
  set_narrowed(k, std::move(mask));
}

}  // namespace

extern constexpr OpDef kDropoutMask{
    .name = "DropoutMask",
    .inputs = 2,  // (x, key): 0 where an element of x is dropped, else 1 / (1 - rate)
    .dtypes = kNumberTypes,
    .attrs = {{"rate", AttrKind::Float}},
    .infer = infer_mask,
    .compute = compute_mask,
    .gradient = no_influence,
    .traits = Trait::Random | Trait::HostKernel,
};

}  // namespace internal

namespace nn {

Tensor dropout(const Tensor& x, DropoutOptions options, Site site) {
  constexpr int64_t kMaxCount = std::numeric_limits<int64_t>::max();
  const cohort::internal::BuilderOf building(x);  // the key is of the graph that x is of
  const Tensor key = random::randint({2}, 0, kMaxCount, kInt64, site);
  const Tensor mask = cohort::internal::apply(cohort::internal::kDropoutMask, {x, key},
                                              {{"rate", options.rate}}, site);
  return mul(x, mask, site);
}

}  // namespace nn
}  // namespace cohort
