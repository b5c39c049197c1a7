// Bits of integer tensors.

#include "cohort/ops.h"
#include "ops/kernel.h"

namespace cohort {
namespace internal {
namespace {

constexpr std::string_view kSteps = "its result moves in steps";

}  // namespace

extern constexpr OpDef kBitwiseAnd{
    .name = "BitwiseAnd",
    .inputs = 2,
    .dtypes = kIntegerTypes,
    .infer = infer_broadcast,
    .compute = [](Kernel& k) { set(k, at::bitwise_and(in(k, 0), in(k, 1))); },
    .gradient = nullptr,
    .no_gradient_because = kSteps,
    .traits = Trait::OneDType,
};

extern constexpr OpDef kBitwiseOr{
    .name = "BitwiseOr",
    .inputs = 2,
    .dtypes = kIntegerTypes,
    .infer = infer_broadcast,
    .compute = [](Kernel& k) { set(k, at::bitwise_or(in(k, 0), in(k, 1))); },
    .gradient = nullptr,
    .no_gradient_because = kSteps,
    .traits = Trait::OneDType,
};

extern constexpr OpDef kBitwiseXor{
    .name = "BitwiseXor",
    .inputs = 2,
    .dtypes = kIntegerTypes,
    .infer = infer_broadcast,
    .compute = [](Kernel& k) { set(k, at::bitwise_xor(in(k, 0), in(k, 1))); },
    .gradient = nullptr,
    .no_gradient_because = kSteps,
    .traits = Trait::OneDType,
};

extern constexpr OpDef kBitwiseNot{
    .name = "BitwiseNot",
    .inputs = 1,
    .dtypes = kIntegerTypes,
    .infer = infer_same,
    .compute = [](Kernel& k) { set(k, at::bitwise_not(in(k))); },
    .gradient = nullptr,
    .no_gradient_because = kSteps,
};

}  // namespace internal

using internal::apply;

namespace {

bool are_truths(const Tensor& a, const Tensor& b) {
  return a.dtype() == kBool && b.dtype() == kBool;
}

}  // namespace

Tensor bitwise_and(const Tensor& a, const Tensor& b, Site site) {
  if (are_truths(a, b)) return logical_and(a, b, site);
  return apply(internal::kBitwiseAnd, {a, b}, {}, site);
}
Tensor bitwise_or(const Tensor& a, const Tensor& b, Site site) {
  if (are_truths(a, b)) return logical_or(a, b, site);
  return apply(internal::kBitwiseOr, {a, b}, {}, site);
}
Tensor bitwise_xor(const Tensor& a, const Tensor& b, Site site) {
  if (are_truths(a, b)) return logical_xor(a, b, site);
  return apply(internal::kBitwiseXor, {a, b}, {}, site);
}
Tensor bitwise_not(const Tensor& x, Site site) {
  return x.dtype() == kBool ? logical_not(x, site) : apply(internal::kBitwiseNot, {x}, {}, site);
}

}  // namespace cohort
