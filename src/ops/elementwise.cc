#include "ops/elementwise.h"

#include <ATen/ExpandUtils.h>

#include "base/raise.h"
#include "cohort/ops.h"
#include "ops/dispatch.h"

namespace cohort::internal {
namespace {

DType common_dtype(std::string_view op, const TensorBody& a, const TensorBody& b) {
  if (a.weak == b.weak) {
    if (is_numeric(a.dtype) != is_numeric(b.dtype)) {
      raise(Code::InvalidArgument, "[{}] {} and {} have no common dtype", op, to_string(a.dtype),
            to_string(b.dtype));
    }
    return promote(a.dtype, b.dtype);
  }
  const TensorBody& number = a.weak ? a : b;
  const TensorBody& tensor = a.weak ? b : a;
  if (is_floating(tensor.dtype)) return tensor.dtype;
  if (is_floating(number.dtype)) return kFloat32;
  if (is_integer(tensor.dtype)) return tensor.dtype;
  return promote(tensor.dtype, number.dtype);  // a bool tensor
}

Tensor converted(const Tensor& x, DType dtype) {
  return body(x).dtype == dtype ? x : cast(x, dtype);
}

}  // namespace

bool is_exclusive(const Tensor& value) {
  const at::Tensor& held = aten(value);
  // A small value is made anew sooner than it is written over; other plain memory is not ours.
  const bool plain = !static_cast<const NumericBody&>(body(value)).value.defined();
  if (plain || TensorAccess::shared(value).use_count() != 1 || held.use_count() != 1 ||
      held.storage().use_count() != 1 || held.storage().allocator() == nullptr ||
      !held.is_contiguous()) {
    return false;
  }
  // use_count() alone does not order what other threads read before they let go; giving up a
  // reference of our own does.
  [[maybe_unused]] const Tensor ordered = value;
  return true;
}

bool may_overwrite(const Kernel& kernel, size_t i) {
  // Who looks for the op that made a NaN needs the inputs as they were.
  return kernel.run != nullptr && is_exclusive(kernel.inputs[i]) && !numerics_guarded();
}

void set_overwritten(Kernel& kernel, size_t i) {
  const auto& held = static_cast<const NumericBody&>(body(kernel.inputs[i]));
  const bool fits = !held.weak && !held.dense.defined() && held.device == &value_device();
  kernel.outputs[0] = fits ? kernel.inputs[i] : from_aten(held.value);
}

void compute_binary(Kernel& kernel, Binary make, BinaryInto write) {
  const at::Tensor& a = in(kernel, 0);
  const at::Tensor& b = in(kernel, 1);
  const bool over_b = !at::is_expandable_to(b.sizes(), a.sizes()) || !may_overwrite(kernel, 0);
  if (over_b && !at::is_expandable_to(a.sizes(), b.sizes())) {
    set(kernel, make(a, b));
    return;
  }
  compute_over(
      kernel, over_b ? 1 : 0, [&] { return make(a, b); },
      [&](at::Tensor& memory) { write(memory, a, b); });
}

Pair promoted(std::string_view op, const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return {a, b};  // apply() names the one that is missing
  const TensorBody& left = body(a);
  const TensorBody& right = body(b);
  if (left.dtype == right.dtype) return {a, b};
  const DType dtype = common_dtype(op, left, right);
  return {converted(a, dtype), converted(b, dtype)};
}

Tensor apply_promoted(const OpDef& op, const Tensor& a, const Tensor& b, Site site) {
  Pair pair = promoted(op.name, a, b);
  return apply(op, {std::move(pair.a), std::move(pair.b)}, {}, site);
}

const std::byte* few_elements(const Tensor& input) {
  const TensorBody& held = body(input);
  if (held.kind != TensorBody::Kind::Numeric || !kSmallTypes.has(held.dtype) ||
      !is_small(held.dtype, held.shape.num_elements())) {
    return nullptr;
  }
  const auto& numeric = static_cast<const NumericBody&>(held);
  if (const std::byte* bytes = plain_bytes(numeric)) return bytes;
  return aten(input).is_cpu() ? element_bytes(input) : nullptr;
}

bool pair_up(const Shape& a, const Shape& b) { return a.rank() == 0 || b.rank() == 0 || a == b; }

}  // namespace cohort::internal
