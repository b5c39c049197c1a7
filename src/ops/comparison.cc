// Comparisons of two tensors, element by element, the choice between two tensors, logic on bool
// tensors, and bits of integer tensors.

#include <functional>

#include "base/raise.h"
#include "cohort/ops.h"
#include "ops/elementwise.h"

namespace cohort {
namespace internal {
namespace {

constexpr OpDef comparison(std::string_view name, DTypeSet dtypes, Compute compute) {
  return {.name = name,
          .inputs = 2,
          .dtypes = dtypes,
          .infer = [](const OpInputs& inputs) -> Specs {
            return {{kBool, broadcast_shapes(inputs.op, inputs.shape(0), inputs.shape(1))}};
          },
          .compute = compute,
          .no_gradient_because = "its result is a truth value",
          .traits = Trait::OneDType};
}

// Strings are compared here: the kernel library has none.
void compare_strings(Kernel& k, bool equal) {
  const std::vector<std::string>& a = strings(k.inputs[0]);
  const std::vector<std::string>& b = strings(k.inputs[1]);
  const Shape& a_shape = body(k.inputs[0]).shape;
  const Shape& b_shape = body(k.inputs[1]).shape;
  const Shape shape = broadcast_shapes("Equal", a_shape, b_shape);
  // Positions of the elements, broadcast like the elements.
  const at::Tensor a_at = at::arange(static_cast<int64_t>(a.size())).reshape(sizes(a_shape));
  const at::Tensor b_at = at::arange(static_cast<int64_t>(b.size())).reshape(sizes(b_shape));
  const at::Tensor a_flat = a_at.expand(sizes(shape)).contiguous();
  const at::Tensor b_flat = b_at.expand(sizes(shape)).contiguous();
  at::Tensor result = at::empty(sizes(shape), at::kBool);
  for (int64_t i = 0; i < result.numel(); ++i) {
    const auto a_index = static_cast<size_t>(a_flat.data_ptr<int64_t>()[i]);
    const auto b_index = static_cast<size_t>(b_flat.data_ptr<int64_t>()[i]);
    result.data_ptr<bool>()[i] = (a[a_index] == b[b_index]) == equal;
  }
  set(k, std::move(result));
}

}  // namespace

extern constexpr OpDef kEqual = comparison("Equal", kAnyType, [](Kernel& k) {
  if (k.inputs[0].dtype() == kString) return compare_strings(k, true);
  if (!compute_small_binary(k, std::equal_to())) set(k, at::eq(in(k, 0), in(k, 1)));
});

extern constexpr OpDef kNotEqual = comparison("NotEqual", kAnyType, [](Kernel& k) {
  if (k.inputs[0].dtype() == kString) return compare_strings(k, false);
  if (!compute_small_binary(k, std::not_equal_to())) set(k, at::ne(in(k, 0), in(k, 1)));
});

extern constexpr OpDef kLess = comparison("Less", kNumericTypes, [](Kernel& k) {
  if (!compute_small_binary(k, std::less())) set(k, at::lt(in(k, 0), in(k, 1)));
});

extern constexpr OpDef kLessEqual = comparison("LessEqual", kNumericTypes, [](Kernel& k) {
  if (!compute_small_binary(k, std::less_equal())) set(k, at::le(in(k, 0), in(k, 1)));
});

extern constexpr OpDef kWhere{
    .name = "Where",
    .inputs = 3,
    .dtypes = kNumericTypes,
    .infer = [](const OpInputs& inputs) -> Specs {
      if (inputs.dtype(0) != kBool) {
        raise(Code::InvalidArgument, "[Where] the condition must be bool, got {}",
              to_string(inputs.dtype(0)));
      }
      const Shape values = broadcast_shapes(inputs.op, inputs.shape(1), inputs.shape(2));
      return {{inputs.dtype(1), broadcast_shapes(inputs.op, inputs.shape(0), values)}};
    },
    .compute = [](Kernel& k) { set(k, at::where(in(k, 0), in(k, 1), in(k, 2))); },
    .gradient = [](const OpCall& call, Grads g) -> Gradients {
      const Tensor none = zeros_like(g[0]);
      const Tensor& condition = call.inputs[0];
      return {{},
              sum_like(where(condition, g[0], none), call.inputs[1]),
              sum_like(where(condition, none, g[0]), call.inputs[2])};
    },
};

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
  op.no_gradient_because = "its result changes in steps";
  return op;
}

bool are_bools(const Tensor& a, const Tensor& b) {
  return a.dtype() == kBool && b.dtype() == kBool;
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

}  // namespace internal

using internal::apply;
using internal::apply_promoted;
using internal::are_bools;

Tensor equal(const Tensor& a, const Tensor& b, Site site) {
  return apply_promoted(internal::kEqual, a, b, site);
}
Tensor not_equal(const Tensor& a, const Tensor& b, Site site) {
  return apply_promoted(internal::kNotEqual, a, b, site);
}
Tensor less(const Tensor& a, const Tensor& b, Site site) {
  return apply_promoted(internal::kLess, a, b, site);
}
Tensor less_equal(const Tensor& a, const Tensor& b, Site site) {
  return apply_promoted(internal::kLessEqual, a, b, site);
}
Tensor greater(const Tensor& a, const Tensor& b, Site site) { return less(b, a, site); }
Tensor greater_equal(const Tensor& a, const Tensor& b, Site site) { return less_equal(b, a, site); }

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b, Site site) {
  const internal::Pair pair = internal::promoted("Where", a, b, site);
  return apply(internal::kWhere, {condition, pair.a, pair.b}, {}, site);
}

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
