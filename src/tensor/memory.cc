#include "tensor/memory.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/TensorImpl.h>

#include <cstring>

#include "base/raise.h"
#include "tensor/aten.h"

namespace cohort::internal {

// Defined in elements.cc: the first element in row-major order.
const void* element_data(const Tensor& tensor, DType dtype);

WritableTensor allocate_tensor(DType dtype, const Shape& shape) {
  const at::ScalarType type = to_aten(dtype);
  int64_t bytes = 0;
  if (__builtin_mul_overflow(shape.num_elements(), size_of(dtype), &bytes)) {
    raise(Code::InvalidArgument, "[Tensor] shape {} of {} has more bytes than fit into 64 bits",
          shape.to_string(), to_string(dtype));
  }
  try {
    at::Tensor value = at::detail::empty_cpu(at::IntArrayRef(shape.begin(), shape.end()), type);
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

const std::byte* element_bytes(const Tensor& tensor) {
  return static_cast<const std::byte*>(element_data(tensor, tensor.dtype()));
}

bool same_memory(const Tensor& a, const Tensor& b) {
  return !a.is_symbolic() && !b.is_symbolic() && is_numeric(a.dtype()) && is_numeric(b.dtype()) &&
         aten(a).data_ptr() == aten(b).data_ptr();
}

bool is_held_here_only(const Tensor& tensor, size_t sharers) {
  const at::Tensor& value = aten(tensor);
  if (TensorAccess::shared(tensor).use_count() != 1 || value.use_count() != 1 ||
      value.storage().use_count() != sharers) {
    return false;
  }
  // Counting alone does not order what others read before they let go; giving up references of our
  // own does.
  [[maybe_unused]] const Tensor ordered = tensor;
  [[maybe_unused]] const c10::Storage ordered_memory = value.storage();
  return true;
}

Tensor view_elements(const Tensor& parent, int64_t offset, const Shape& shape) {
  const at::Tensor& whole = aten(parent);
  const at::IntArrayRef sizes(shape.begin(), shape.end());
  if (!whole.is_contiguous() || !whole.device().is_cpu()) {
    const auto* data = static_cast<const std::byte*>(element_data(parent, parent.dtype()));
    return Tensor::from_memory(data + offset * size_of(parent.dtype()), parent.dtype(), shape,
                               [held = Tensor(parent)]() mutable { held = Tensor(); });
  }
  at::Tensor part = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(whole.storage()), c10::DispatchKeySet(c10::DispatchKey::CPU), whole.dtype());
  part.unsafeGetTensorImpl()->set_storage_offset(whole.storage_offset() + offset);
  part.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  return from_aten(std::move(part));
}

}  // namespace cohort::internal
