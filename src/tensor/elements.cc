// Where the elements of a tensor lie in row-major order, and reading them into C++ values.

#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>
#include <utility>

#include "base/mutex.h"
#include "base/raise.h"
#include "kernels/dtypes.h"
#include "tensor/aten.h"

namespace cohort {
namespace internal {
namespace {

// The address of the elements if they lie in row-major order; otherwise null.
const std::byte* bytes_in_place(const Tensor& tensor) {
  const TensorBody& held = body(tensor);
  if (held.kind == TensorBody::Kind::Numeric) {
    const std::byte* bytes = plain_bytes(static_cast<const NumericBody&>(held));
    if (bytes != nullptr) return bytes;
  }
  const at::Tensor& value = aten(tensor);
  const bool is_dense = value.is_contiguous() && value.is_cpu();
  return is_dense ? static_cast<const std::byte*>(value.data_ptr()) : nullptr;
}

// The elements as they are now, in row-major order.
at::Tensor dense_copy(const at::Tensor& value) {
  return value.cpu().clone(at::MemoryFormat::Contiguous);
}

// A row-major, aligned copy of the value that lives as long as the value. It is brought up to date
// here, because torch may have written to the value since the copy was made. A thread that reads at
// the same time sees no write unless the value has changed.
const std::byte* kept_copy(const Tensor& tensor) {
  static Mutex updating;  // one for all: such values are rare
  const auto& held = static_cast<const NumericBody&>(body(tensor));
  const at::Tensor now = dense_copy(aten(tensor));
  std::call_once(held.dense_once, [&] { held.dense = now; });
  const std::lock_guard lock(updating);
  if (now.nbytes() > 0 && std::memcmp(held.dense.data_ptr(), now.data_ptr(), now.nbytes()) != 0) {
    std::memcpy(held.dense.data_ptr(), now.data_ptr(), now.nbytes());
  }
  return static_cast<const std::byte*>(held.dense.data_ptr());
}

// Element `offset` in row-major order of a value with strides.
at::Tensor strided_element(const at::Tensor& value, int64_t offset) {
  int64_t place = value.storage_offset();
  for (int64_t axis = value.dim(); axis-- > 0;) {
    place += offset % value.size(axis) * value.stride(axis);
    offset /= value.size(axis);
  }
  return value.as_strided({}, {}, place).cpu();
}

template <typename To, typename From>
bool fits(From value) {
  if constexpr (std::same_as<To, bool> || std::same_as<From, bool> || !std::integral<To>) {
    return true;
  } else if constexpr (std::integral<From>) {
    return std::in_range<To>(value);
  } else {
    // Powers of two, which From holds exactly; To's largest number may be none.
    constexpr From low = std::numeric_limits<To>::min();
    constexpr From beyond = 2 * static_cast<From>(std::numeric_limits<To>::max() / 2 + 1);
    const From whole = std::trunc(value);
    return whole >= low && whole < beyond;
  }
}

template <typename To, typename From>
To convert(From value) {
  if constexpr (kIs16BitFloat<From>) {
    return convert<To>(static_cast<float>(value));
  } else if constexpr (kIs16BitFloat<To>) {
    return To(static_cast<float>(value));
  } else {
    if (!fits<To>(value)) {
      raise(Code::InvalidArgument, "[Tensor] {} does not fit into {}", value,
            to_string(dtype_of<To>));
    }
    return static_cast<To>(value);
  }
}

void convert_elements(const void* from, DType from_dtype, int64_t count, DType to_dtype, void* to) {
  visit_numeric(from_dtype, [&]<typename From>(From) {
    visit_numeric(to_dtype, [&]<typename To>(To) {
      auto* target = static_cast<To*>(to);
      for (int64_t i = 0; i < count; ++i) target[i] = convert<To>(load<From>(from, i));
    });
  });
}

void check_readable_as(const Tensor& tensor, DType dtype) {
  if ((tensor.dtype() == kString) == (dtype == kString)) return;
  raise(Code::InvalidArgument, "[Tensor] a {} tensor cannot be read as {}",
        to_string(tensor.dtype()), to_string(dtype));
}

}  // namespace

const std::byte* plain_bytes(const NumericBody& body) {
  if (body.value.defined()) return nullptr;
  const auto& late = static_cast<const LateBody&>(body);
  const bool moved = !late.owner && late.is_made.load(std::memory_order_acquire);
  return moved ? nullptr : late.bytes;
}

const void* element_data(const Tensor& tensor, DType dtype) {
  if (tensor.dtype() != dtype) {
    raise(Code::InvalidArgument, "[Tensor] the elements are {}, not {}; use to_vector() to convert",
          to_string(tensor.dtype()), to_string(dtype));
  }
  if (dtype == kString) return strings(tensor).data();
  const std::byte* bytes = bytes_in_place(tensor);
  const auto size = static_cast<uintptr_t>(size_of(dtype));
  if (bytes != nullptr && reinterpret_cast<uintptr_t>(bytes) % size == 0) return bytes;
  return kept_copy(tensor);
}

const std::byte* element_bytes(const Tensor& tensor) {
  return static_cast<const std::byte*>(element_data(tensor, tensor.dtype()));
}

void read_element(const Tensor& tensor, int64_t offset, DType dtype, void* out) {
  check_readable_as(tensor, dtype);
  if (dtype == kString) {
    *static_cast<std::string*>(out) = strings(tensor).at(static_cast<size_t>(offset));
    return;
  }
  if (const std::byte* bytes = bytes_in_place(tensor)) {
    convert_elements(bytes + offset * size_of(tensor.dtype()), tensor.dtype(), 1, dtype, out);
  } else {
    const at::Tensor element = strided_element(aten(tensor), offset);
    convert_elements(element.data_ptr(), tensor.dtype(), 1, dtype, out);
  }
}

void read_elements(const Tensor& tensor, DType dtype, void* out) {
  check_readable_as(tensor, dtype);
  if (dtype == kString) {
    const std::vector<std::string>& values = strings(tensor);
    std::copy(values.begin(), values.end(), static_cast<std::string*>(out));
    return;
  }
  const void* bytes = bytes_in_place(tensor);
  at::Tensor copy;
  if (bytes == nullptr) {
    copy = dense_copy(aten(tensor));
    bytes = copy.data_ptr();
  }
  if (tensor.dtype() != dtype) {
    convert_elements(bytes, tensor.dtype(), tensor.size(), dtype, out);
  } else if (tensor.size() > 0) {
    std::memcpy(out, bytes, static_cast<size_t>(tensor.size() * size_of(dtype)));
  }
}

int64_t offset_of(const Tensor& tensor, std::span<const int64_t> index) {
  if (tensor.is_symbolic()) raise_symbolic(tensor, "an element");
  const Shape shape = tensor.shape();
  if (static_cast<int>(index.size()) != shape.rank()) {
    raise(Code::InvalidArgument, "[Tensor] needs one index per dimension, got {} for shape {}",
          index.size(), shape.to_string());
  }
  int64_t offset = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const int64_t size = shape[axis];
    const int64_t at = index[axis] < 0 ? index[axis] + size : index[axis];
    if (at < 0 || at >= size) {
      raise(Code::InvalidArgument, "[Tensor] index {} is outside of dimension {} of shape {}",
            index[axis], axis, shape.to_string());
    }
    offset = offset * size + at;
  }
  return offset;
}

int64_t count_values(const Tensor& tensor) {
  if (tensor.is_symbolic()) raise_symbolic(tensor, "a C++ value");
  return tensor.size();
}

void check_one_element(const Tensor& tensor) {
  if (count_values(tensor) != 1) {
    raise(Code::InvalidArgument,
          "[Tensor] only a tensor of one element converts to a C++ value; this one has shape {}",
          tensor.shape().to_string());
  }
}

}  // namespace internal

std::string Tensor::device() const {
  const internal::TensorBody& held = internal::body(*this);
  if (held.device != nullptr) return held.device->full_name;
  return static_cast<const internal::SymbolBody&>(held).device_asked_for();
}

Tensor::operator bool() const { return to<bool>(); }

}  // namespace cohort
