// Comparisons of two tensors, element by element.

#include <functional>

#include "cohort/ops.h"
#include "ops/kernel.h"
#include "ops/promotion.h"
#include "ops/small.h"

namespace cohort {
namespace internal {
namespace {

constexpr std::string_view kTruth = "its result is a truth value";

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

extern constexpr OpDef kEqual{
    .name = "Equal",
    .inputs = 2,
    .dtypes = kAnyType,
    .infer = infer_broadcast_to_bool,
    .compute =
        [](Kernel& k) {
          if (k.inputs[0].dtype() == kString) return compare_strings(k, true);
          if (!compute_small_binary(k, std::equal_to())) set(k, at::eq(in(k, 0), in(k, 1)));
        },
    .gradient = nullptr,
    .no_gradient_because = kTruth,
    .traits = Trait::OneDType,
};

extern constexpr OpDef kNotEqual{
    .name = "NotEqual",
    .inputs = 2,
    .dtypes = kAnyType,
    .infer = infer_broadcast_to_bool,
    .compute =
        [](Kernel& k) {
          if (k.inputs[0].dtype() == kString) return compare_strings(k, false);
          if (!compute_small_binary(k, std::not_equal_to())) set(k, at::ne(in(k, 0), in(k, 1)));
        },
    .gradient = nullptr,
    .no_gradient_because = kTruth,
    .traits = Trait::OneDType,
};

extern constexpr OpDef kLess{
    .name = "Less",
    .inputs = 2,
    .dtypes = kNumericTypes,
    .infer = infer_broadcast_to_bool,
    .compute =
        [](Kernel& k) {
          if (!compute_small_binary(k, std::less())) set(k, at::lt(in(k, 0), in(k, 1)));
        },
    .gradient = nullptr,
    .no_gradient_because = kTruth,
    .traits = Trait::OneDType,
};

extern constexpr OpDef kLessEqual{
    .name = "LessEqual",
    .inputs = 2,
    .dtypes = kNumericTypes,
    .infer = infer_broadcast_to_bool,
    .compute =
        [](Kernel& k) {
          if (!compute_small_binary(k, std::less_equal())) set(k, at::le(in(k, 0), in(k, 1)));
        },
    .gradient = nullptr,
    .no_gradient_because = kTruth,
    .traits = Trait::OneDType,
};

namespace {

Tensor compare(const OpDef& op, const Tensor& a, const Tensor& b, Site site) {
  Pair pair = promoted(op.name, a, b);
  return apply(op, {std::move(pair.a), std::move(pair.b)}, {}, site);
}

}  // namespace
}  // namespace internal

using internal::compare;

Tensor equal(const Tensor& a, const Tensor& b, Site site) {
  return compare(internal::kEqual, a, b, site);
}
Tensor not_equal(const Tensor& a, const Tensor& b, Site site) {
  return compare(internal::kNotEqual, a, b, site);
}
Tensor less(const Tensor& a, const Tensor& b, Site site) {
  return compare(internal::kLess, a, b, site);
}
Tensor less_equal(const Tensor& a, const Tensor& b, Site site) {
  return compare(internal::kLessEqual, a, b, site);
}
Tensor greater(const Tensor& a, const Tensor& b, Site site) { return less(b, a, site); }
Tensor greater_equal(const Tensor& a, const Tensor& b, Site site) { return less_equal(b, a, site); }

}  // namespace cohort
