// Reading single elements and whole tensors into C++ values.

#include <ATen/ops/empty.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "base/raise.h"
#include "tensor/aten.h"
#include "tensor/small.h"
#include "tensor/visit.h"

namespace cohort {
namespace internal {
namespace {

bool is_dense(const at::Tensor& value) {
  return value.is_contiguous() && value.device().is_cpu() &&
         reinterpret_cast<uintptr_t>(value.data_ptr()) % value.element_size() == 0;
}

// The value as row-major, aligned memory: itself, or a copy kept with it.
const at::Tensor& dense_value(const Tensor& tensor) {
  const at::Tensor& value = aten(tensor);
  if (is_dense(value)) return value;
  const auto& held = static_cast<const NumericBody&>(body(tensor));
  std::call_once(held.dense_once,
                 [&] { held.dense = value.cpu().clone(at::MemoryFormat::Contiguous); });
  return held.dense;
}

// The elements in row-major order, wherever they are.
const std::byte* dense_bytes(const Tensor& tensor) {
  const TensorBody& held = body(tensor);
  if (held.kind == TensorBody::Kind::Numeric) {
    const std::byte* bytes = plain_bytes(static_cast<const NumericBody&>(held));
    if (bytes != nullptr) return bytes;
  }
  return static_cast<const std::byte*>(dense_value(tensor).data_ptr());
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
  if constexpr (std::same_as<From, float16> || std::same_as<From, bfloat16>) {
    return convert<To>(static_cast<float>(value));
  } else if constexpr (std::same_as<To, float16> || std::same_as<To, bfloat16>) {
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

void read_element(const Tensor& tensor, int64_t offset, DType dtype, void* out) {
  check_readable_as(tensor, dtype);
  if (dtype == kString) {
    *static_cast<std::string*>(out) = strings(tensor).at(static_cast<size_t>(offset));
    return;
  }
  const std::byte* element = dense_bytes(tensor) + offset * size_of(tensor.dtype());
  convert_elements(element, tensor.dtype(), 1, dtype, out);
}

void read_elements(const Tensor& tensor, DType dtype, void* out) {
  check_readable_as(tensor, dtype);
  if (dtype == kString) {
    const std::vector<std::string>& values = strings(tensor);
    std::copy(values.begin(), values.end(), static_cast<std::string*>(out));
    return;
  }
  const std::byte* bytes = dense_bytes(tensor);
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
    raise(Code::InvalidArgument, "[Tensor] {} indices for a tensor of shape {}", index.size(),
          shape.to_string());
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

const void* element_data(const Tensor& tensor, DType dtype) {
  if (tensor.dtype() != dtype) {
    raise(Code::InvalidArgument, "[Tensor] the elements are {}, not {}; use to_vector() to convert",
          to_string(tensor.dtype()), to_string(dtype));
  }
  if (dtype == kString) return strings(tensor).data();
  return dense_bytes(tensor);
}

}  // namespace internal

std::string Tensor::device() const {
  const internal::Device* held = internal::body(*this).device;
  return held == nullptr ? std::string() : held->full_name;
}

Tensor::operator bool() const { return to<bool>(); }

}  // namespace cohort
