// Logic on bool tensors, and bits of integer tensors.

#include "cohort/ops.h"
#include "ops/kernel.h"

namespace cohort {
namespace internal {
namespace {

constexpr OpDef logic(std::string_view name, int inputs, void (*compute)(Kernel&)) {
  return {.name = name,
          .inputs = inputs,
          .dtypes = kBoolType,
          .infer = inputs == 1 ? infer_same : infer_broadcast,
          .compute = compute,
          .no_gradient_because = "its result is a truth value",
          .traits = inputs == 1 ? Traits() : Trait::OneDType};
}

constexpr OpDef bits(std::string_view name, int inputs, void (*compute)(Kernel&)) {
  OpDef op = logic(name, inputs, compute);
  op.dtypes = kIntegerTypes;
  op.no_gradient_because = "its result moves in steps";
  return op;
}

}  // namespace

extern constexpr OpDef kLogicalAnd =
    logic("LogicalAnd", 2, [](Kernel& k) { set(k, at::logical_and(in(k, 0), in(k, 1))); });
extern constexpr OpDef kLogicalOr =
    logic("LogicalOr", 2, [](Kernel& k) { set(k, at::logical_or(in(k, 0), in(k, 1))); });
extern constexpr OpDef kLogicalXor =
    logic("LogicalXor", 2, [](Kernel& k) { set(k, at::logical_xor(in(k, 0), in(k, 1))); });
extern constexpr OpDef kLogicalNot =
    logic("LogicalNot", 1, [](Kernel& k) { set(k, at::logical_not(in(k))); });

extern constexpr OpDef kBitwiseAnd =
    bits("BitwiseAnd", 2, [](Kernel& k) { set(k, at::bitwise_and(in(k, 0), in(k, 1))); });
extern constexpr OpDef kBitwiseOr =
    bits("BitwiseOr", 2, [](Kernel& k) { set(k, at::bitwise_or(in(k, 0), in(k, 1))); });
extern constexpr OpDef kBitwiseXor =
    bits("BitwiseXor", 2, [](Kernel& k) { set(k, at::bitwise_xor(in(k, 0), in(k, 1))); });
extern constexpr OpDef kBitwiseNot =
    bits("BitwiseNot", 1, [](Kernel& k) { set(k, at::bitwise_not(in(k))); });

namespace {

bool are_bools(const Tensor& a, const Tensor& b) {
  return a.dtype() == kBool && b.dtype() == kBool;
}

}  // namespace
}  // namespace internal

using internal::apply;
using internal::are_bools;

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

Tensor bitwise_and(const Tensor& a, const Tensor& b, Site site) {
  return apply(are_bools(a, b) ? internal::kLogicalAnd : internal::kBitwiseAnd, {a, b}, {}, site);
}
Tensor bitwise_or(const Tensor& a, const Tensor& b, Site site) {
  return apply(are_bools(a, b) ? internal::kLogicalOr : internal::kBitwiseOr, {a, b}, {}, site);
}
Tensor bitwise_xor(const Tensor& a, const Tensor& b, Site site) {
  return apply(are_bools(a, b) ? internal::kLogicalXor : internal::kBitwiseXor, {a, b}, {}, site);
}
Tensor bitwise_not(const Tensor& x, Site site) {
  return apply(are_bools(x, x) ? internal::kLogicalNot : internal::kBitwiseNot, {x}, {}, site);
}

}  // namespace cohort
