#include "tensor/small.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/from_blob.h>

#include <cstring>

#include "tensor/borrow.h"

namespace cohort::internal {

namespace {

void describe(LateBody& body, DType dtype, const Shape& shape) {
  body.kind = TensorBody::Kind::Numeric;
  body.dtype = dtype;
  body.shape = shape;
  body.device = &value_device();
}

at::Tensor copy_of(const LateBody& late, at::IntArrayRef sizes) {
  at::Tensor value = at::detail::empty_cpu(sizes, to_aten(late.dtype));
  if (value.numel() > 0) std::memcpy(value.data_ptr(), late.bytes, value.nbytes());
  return value;
}

at::Tensor view_of(const LateBody& late, at::IntArrayRef sizes) {
  return at::from_blob(
      const_cast<std::byte*>(late.bytes), sizes,
      [owner = late.owner](void*) mutable { owner.reset(); },
      at::TensorOptions(to_aten(late.dtype)));
}

}  // namespace

WritableTensor make_small(DType dtype, const Shape& shape, bool weak) {
  auto made = std::make_shared<SmallBody>();
  describe(*made, dtype, shape);
  made->weak = weak;
  made->bytes = made->own.data();
  std::byte* data = made->own.data();
  return {TensorAccess::make(std::move(made)), data};
}

Tensor borrow_memory(const std::byte* data, DType dtype, const Shape& shape,
                     std::shared_ptr<const void> owner) {
  auto made = std::make_shared<LateBody>();
  describe(*made, dtype, shape);
  made->bytes = data;
  made->owner = std::move(owner);
  return TensorAccess::make(std::move(made));
}

Tensor share_memory(const Tensor& tensor) {
  const TensorBody& held = body(tensor);
  if (held.kind == TensorBody::Kind::Numeric &&
      !static_cast<const NumericBody&>(held).value.defined()) {
    const auto& late = static_cast<const LateBody&>(held);
    if (late.owner) return borrow_memory(late.bytes, late.dtype, late.shape, late.owner);
  }
  return from_aten(aten(tensor));
}

Tensor constant_of(const Tensor& tensor) {
  const TensorBody& held = body(tensor);
  if (held.kind != TensorBody::Kind::Numeric) return tensor;
  if (plain_bytes(static_cast<const NumericBody&>(held)) != nullptr) return tensor;
  const at::Tensor& value = aten(tensor);
  if (value.use_count() == 1 && value.storage().use_count() == 1) return tensor;
  auto made = std::make_shared<NumericBody>();
  static_cast<TensorBody&>(*made) = held;
  made->value = value.detach().clone();
  return TensorAccess::make(std::move(made));
}

const std::byte* plain_bytes(const NumericBody& body) {
  if (body.value.defined()) return nullptr;
  const auto& late = static_cast<const LateBody&>(body);
  const bool moved = !late.owner && late.is_made.load(std::memory_order_acquire);
  return moved ? nullptr : late.bytes;
}

const at::Tensor& made_value(const NumericBody& body) {
  const auto& late = static_cast<const LateBody&>(body);
  std::call_once(late.made_once, [&] {
    const at::IntArrayRef sizes(late.shape.begin(), late.shape.end());
    late.made = late.owner ? view_of(late, sizes) : copy_of(late, sizes);
    late.is_made.store(true, std::memory_order_release);
  });
  return late.made;
}

}  // namespace cohort::internal
