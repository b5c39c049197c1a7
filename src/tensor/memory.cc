#include "tensor/memory.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/TensorImpl.h>

#include <cstring>

#include "base/raise.h"
#include "tensor/aten.h"

namespace cohort::internal {

WritableTensor allocate_tensor(DType dtype, const Shape& shape) {
  const at::ScalarType type = to_aten(dtype);
  int64_t bytes = 0;
  if (__builtin_mul_overflow(shape.num_elements(), size_of(dtype), &bytes)) {
    raise(Code::InvalidArgument, "[Tensor] shape {} of {} has more bytes than fit into 64 bits",
          shape.to_string(), to_string(dtype));
  }
  try {
    at::Tensor value = at::detail::empty_cpu(sizes(shape), type);
    auto* data = static_cast<std::byte*>(value.data_ptr());
    return {from_aten(std::move(value)), data};
  } catch (const c10::Error&) {
    raise(Code::ResourceExhausted, "[Tensor] not enough memory for shape {} of {}",
          shape.to_string(), to_string(dtype));
  }
}

Tensor allocate_zeros(DType dtype, const Shape& shape) {
  const auto count = static_cast<size_t>(shape.num_elements());
  if (dtype == kString) return Tensor::from(std::vector<std::string>(count), shape);
  const WritableTensor made = allocate_tensor(dtype, shape);
  if (count > 0) std::memset(made.data, 0, count * static_cast<size_t>(size_of(dtype)));
  return made.tensor;
}

WritableTensor allocate_like(const Tensor& tensor) {
  at::Tensor value = at::empty_like(aten(tensor), at::MemoryFormat::Contiguous);
  auto* data = static_cast<std::byte*>(value.data_ptr());
  return {from_aten(std::move(value)), data};
}

bool same_memory(const Tensor& a, const Tensor& b) {
  return !a.is_symbolic() && !b.is_symbolic() && is_numeric(a.dtype()) && is_numeric(b.dtype()) &&
         aten(a).data_ptr() == aten(b).data_ptr();
}

bool is_held_here_only(const Tensor& tensor, size_t sharers) {
  const at::Tensor& value = aten(tensor);
  if (TensorAccess::shared(tensor).use_count() != 1 || value.use_count() != 1 ||
      value.storage().use_count() != sharers || is_awaited_by_device(tensor)) {
    return false;
  }
  // Reading the count does not order this thread after the reads of other threads that have
  // released the value. Releasing references of our own does.
  [[maybe_unused]] const Tensor ordered = tensor;
  [[maybe_unused]] const c10::Storage ordered_memory = value.storage();
  return true;
}

Tensor view_elements(const Tensor& parent, int64_t offset, const Shape& shape) {
  const at::Tensor& whole = aten(parent);
  if (!whole.is_contiguous() || !whole.device().is_cpu()) {
    return Tensor::from_memory(element_bytes(parent) + offset * size_of(parent.dtype()),
                               parent.dtype(), shape,
                               [held = Tensor(parent)]() mutable { held = Tensor(); });
  }
  at::Tensor part = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(whole.storage()), c10::DispatchKeySet(c10::DispatchKey::CPU), whole.dtype());
  part.unsafeGetTensorImpl()->set_storage_offset(whole.storage_offset() + offset);
  part.unsafeGetTensorImpl()->set_sizes_contiguous(sizes(shape));
  return from_aten(std::move(part));
}

namespace {

void describe(LateBody& body, DType dtype, const Shape& shape, const Device& device) {
  body.kind = TensorBody::Kind::Numeric;
  body.dtype = dtype;
  body.shape = shape;
  body.device = &device;
}

at::Tensor copy_of(const LateBody& late) {
  at::Tensor value = at::detail::empty_cpu(sizes(late.shape), to_aten(late.dtype));
  if (value.numel() > 0) std::memcpy(value.data_ptr(), late.bytes, value.nbytes());
  return value;
}

at::Tensor view_of(const LateBody& late) {
  return at::from_blob(
      const_cast<std::byte*>(late.bytes), sizes(late.shape),
      [owner = late.owner](void*) mutable { owner.reset(); },
      at::TensorOptions(to_aten(late.dtype)));
}

// The elements of a small value that the kernel library has not seen; null for other values.
const std::byte* own_bytes(const Tensor& tensor) {
  const auto& held = static_cast<const NumericBody&>(body(tensor));
  const std::byte* const bytes = plain_bytes(held);
  return bytes != nullptr && !static_cast<const LateBody&>(held).owner ? bytes : nullptr;
}

// The elements of a numeric tensor, at `place`.
std::shared_ptr<TensorBody> copy_at(const Tensor& tensor, Place place) {
  const std::byte* const few = has_gpus() ? own_bytes(tensor) : nullptr;
  if (few != nullptr) {
    auto made = std::make_shared<SmallBody>();
    std::memcpy(made->own.data(), few, static_cast<size_t>(bytes_of(tensor)));
    made->bytes = made->own.data();
    return made;
  }
  auto made = std::make_shared<NumericBody>();
  made->value = at_place(aten(tensor), place);
  return made;
}

std::shared_ptr<TensorBody> copy_at(const Tensor& tensor, const Device& device) {
  if (tensor.dtype() != kString) return copy_at(tensor, device.place);
  auto made = std::make_shared<StringBody>();
  made->values = strings(tensor);
  return made;
}

}  // namespace

WritableTensor make_small(DType dtype, const Shape& shape, bool weak) {
  auto made = std::make_shared<SmallBody>();
  describe(*made, dtype, shape, value_device());
  made->weak = weak;
  made->bytes = made->own.data();
  std::byte* data = made->own.data();
  return {TensorAccess::make(std::move(made)), data};
}

Tensor borrow_memory(const std::byte* data, DType dtype, const Shape& shape,
                     std::shared_ptr<const void> owner) {
  auto made = std::make_shared<LateBody>();
  describe(*made, dtype, shape, host_of(value_device()));
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

const at::Tensor& made_value(const NumericBody& body) {
  const auto& late = static_cast<const LateBody&>(body);
  std::call_once(late.made_once, [&] {
    late.made = at_place(late.owner ? view_of(late) : copy_of(late), late.device->place);
    late.is_made.store(true, std::memory_order_release);
  });
  return late.made;
}

Tensor on_device(const Tensor& tensor, const Device& asked) {
  const TensorBody& held = body(tensor);
  const Device& device = held.kind == TensorBody::Kind::Strings ? host_of(asked) : asked;
  if (held.device == &device || held.kind == TensorBody::Kind::Resource) return tensor;
  const std::shared_ptr<TensorBody> made = copy_at(tensor, device);
  *made = held;
  made->device = &device;
  return TensorAccess::make(made);
}

Tensor reachable_from(const Device& device, const Tensor& value) {
  const Device* const from = body(value).device;  // null for symbols
  return from == nullptr || from->place == device.place ? value : on_device(value, device);
}

}  // namespace cohort::internal
