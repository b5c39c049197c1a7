#include "tensor/small.h"

#include <ATen/EmptyTensor.h>

#include <cstring>

namespace cohort::internal {

WritableTensor make_small(DType dtype, const Shape& shape, bool weak) {
  auto made = std::make_shared<SmallBody>();
  made->kind = TensorBody::Kind::Numeric;
  made->dtype = dtype;
  made->weak = weak;
  made->shape = shape;
  made->device = &value_device();
  std::byte* data = made->bytes.data();
  return {TensorAccess::make(std::move(made)), data};
}

const std::byte* small_bytes(const NumericBody& body) {
  if (body.value.defined()) return nullptr;
  const auto& small = static_cast<const SmallBody&>(body);
  return small.is_made.load(std::memory_order_acquire) ? nullptr : small.bytes.data();
}

const at::Tensor& made_value(const NumericBody& body) {
  const auto& small = static_cast<const SmallBody&>(body);
  std::call_once(small.made_once, [&] {
    const at::IntArrayRef sizes(small.shape.begin(), small.shape.end());
    at::Tensor value = at::detail::empty_cpu(sizes, to_aten(small.dtype));
    if (value.numel() > 0) std::memcpy(value.data_ptr(), small.bytes.data(), value.nbytes());
    small.made = std::move(value);
    small.is_made.store(true, std::memory_order_release);
  });
  return small.made;
}

}  // namespace cohort::internal
