// Logic on bool tensors.

#include "cohort/ops.h"
#include "ops/kernel.h"

namespace cohort {
namespace internal {
namespace {

constexpr std::string_view kTruth = "its result is a truth value";

}  // namespace

extern constexpr OpDef kLogicalAnd{
    .name = "LogicalAnd",
    .inputs = 2,
    .dtypes = kBoolType,
    .infer = infer_broadcast,
    .compute = [](Kernel& k) { set(k, at::logical_and(in(k, 0), in(k, 1))); },
    .gradient = nullptr,
    .no_gradient_because = kTruth,
    .traits = Trait::OneDType,
};

extern constexpr OpDef kLogicalOr{
    .name = "LogicalOr",
    .inputs = 2,
    .dtypes = kBoolType,
    .infer = infer_broadcast,
    .compute = [](Kernel& k) { set(k, at::logical_or(in(k, 0), in(k, 1))); },
    .gradient = nullptr,
    .no_gradient_because = kTruth,
    .traits = Trait::OneDType,
};

extern constexpr OpDef kLogicalXor{
    .name = "LogicalXor",
    .inputs = 2,
    .dtypes = kBoolType,
    .infer = infer_broadcast,
    .compute = [](Kernel& k) { set(k, at::logical_xor(in(k, 0), in(k, 1))); },
    .gradient = nullptr,
    .no_gradient_because = kTruth,
    .traits = Trait::OneDType,
};

extern constexpr OpDef kLogicalNot{
    .name = "LogicalNot",
    .inputs = 1,
    .dtypes = kBoolType,
    .infer = infer_same,
    .compute = [](Kernel& k) { set(k, at::logical_not(in(k))); },
    .gradient = nullptr,
    .no_gradient_because = kTruth,
};

}  // namespace internal

using internal::apply;

Tensor logical_and(const Tensor& a, const Tensor& b, Site site) {
  return apply(internal::kLogicalAnd, {a, b}, {}, site);
}
Tensor logical_or(const Tensor& a, const Tensor& b, Site site) {
  return apply(internal::kLogicalOr, {a, b}, {}, site);
}
Tensor logical_xor(const Tensor& a, const Tensor& b, Site site) {
  return apply(internal::kLogicalXor, {a, b}, {}, site);
}
Tensor logical_not(const Tensor& x, Site site) {
  return apply(internal::kLogicalNot, {x}, {}, site);
}

}  // namespace cohort
