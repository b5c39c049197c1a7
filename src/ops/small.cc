#include "ops/small.h"

namespace cohort::internal {

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
