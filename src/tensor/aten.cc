#include "tensor/aten.h"

#include <fmt/ostream.h>

#include <array>

#include "base/raise.h"

namespace cohort::internal {
namespace {

constexpr std::array<std::pair<DType, at::ScalarType>, 10> kTypes = {{
    {kFloat16, at::kHalf},
    {kBFloat16, at::kBFloat16},
    {kFloat32, at::kFloat},
    {kFloat64, at::kDouble},
    {kInt8, at::kChar},
    {kInt16, at::kShort},
    {kInt32, at::kInt},
    {kInt64, at::kLong},
    {kUInt8, at::kByte},
    {kBool, at::kBool},
}};

}  // namespace

at::ScalarType to_aten(DType dtype) {
  if (!is_numeric(dtype)) {
    raise(Code::InvalidArgument, "[Tensor] {} values are not numbers", to_string(dtype));
  }
  return kTypes[static_cast<size_t>(dtype)].second;
}

DType from_aten(at::ScalarType type) {
  for (const auto& [ours, theirs] : kTypes) {
    if (theirs == type) return ours;
  }
  raise(Code::InvalidArgument,
        "[Tensor] torch's type {} has no counterpart; convert it with .to(torch::kFloat32) first",
        c10::toString(type));
}

const at::Tensor& aten(const Tensor& tensor) {
  const TensorBody& held = body(tensor);
  if (held.kind == TensorBody::Kind::Symbol) raise_symbolic(tensor, "the value");
  if (held.kind != TensorBody::Kind::Numeric) {
    raise(Code::InvalidArgument, "[Tensor] needs numbers, got a {} tensor", to_string(held.dtype));
  }
  const auto& numeric = static_cast<const NumericBody&>(held);
  return numeric.value.defined() ? numeric.value : made_value(numeric);
}

Tensor from_aten(at::Tensor value) {
  auto made = std::make_shared<NumericBody>();
  made->kind = TensorBody::Kind::Numeric;
  made->dtype = from_aten(value.scalar_type());
  const at::IntArrayRef sizes = value.sizes();
  made->shape = Shape(std::span<const int64_t>(sizes.data(), sizes.size()));
  made->device = &value_device();
  made->value = std::move(value);
  return TensorAccess::make(std::move(made));
}

at::Tensor to_torch(const Tensor& tensor) { return aten(tensor); }

namespace {
// Torch may put off negating a value, or storing one that is zero everywhere.
bool has_lazy_values(const at::Tensor& tensor) {
  return tensor.is_neg() || tensor._is_zerotensor();
}
}  // namespace

Tensor from_torch(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  if (tensor.is_nested() || tensor.layout() != at::kStrided || !tensor.is_cpu()) {
    raise(
        Code::InvalidArgument,
        "[Tensor] expected a dense torch tensor on the CPU, got {}layout {} on {}; to_dense() and "
        ".cpu() convert",
        tensor.is_nested() ? "a nested one, " : "", fmt::streamed(tensor.layout()),
        tensor.device().str());
  }
  from_aten(tensor.scalar_type());  // throws for a type that has no counterpart
  return from_aten(has_lazy_values(tensor) ? tensor.clone() : tensor);
}

}  // namespace cohort::internal
