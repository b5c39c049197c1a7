#include "data/read_tensor.h"

#include <algorithm>

#include "base/raise.h"

namespace cohort::data::internal {
namespace {

constexpr int64_t kTrustedBytes = 1 << 20;

// -1 when the product does not fit.
int64_t bytes_of(DType dtype, const Shape& shape) {
  int64_t product = size_of(dtype);
  for (const int64_t size : shape) {
    if (__builtin_mul_overflow(product, size, &product)) return -1;
  }
  return product;
}

}  // namespace

Tensor TensorBytes::finish(DType dtype, const Shape& shape) && {
  // A damaged file may hold any byte; a bool is 0 or 1.
  if (dtype == kBool) {
    for (std::byte& value : bytes_) value = std::byte{value != std::byte{0}};
  }
  if (tensor_.defined()) return std::move(tensor_);
  static constexpr std::byte kNothing{};
  const void* data = bytes_.empty() ? &kNothing : bytes_.data();
  return Tensor::from_memory(data, dtype, shape,
                             [owner = std::move(owned_)]() mutable { owner.reset(); });
}

void swap_bytes(std::span<std::byte> bytes, size_t width) {
  for (size_t at = 0; width > 1 && at + width <= bytes.size(); at += width) {
    std::ranges::reverse(bytes.subspan(at, width));
  }
}

TensorBytes read_tensor_bytes(std::string_view format, BufferedBytes& bytes, DType dtype,
                              const Shape& shape) {
  const int64_t wanted = bytes_of(dtype, shape);
  const int64_t left = bytes.left();
  if (wanted < 0 || (left >= 0 && left < wanted)) {
    raise(Code::DataLoss, "[{}] '{}': shape {} of {} is announced, but {} bytes follow", format,
          bytes.name(), shape.to_string(), to_string(dtype),
          left < 0 ? "fewer" : std::to_string(left));
  }
  const auto check_got = [&](size_t got) {
    if (static_cast<int64_t>(got) == wanted) return;
    raise(Code::DataLoss, "[{}] '{}': shape {} of {} is announced, but only {} of {} bytes follow",
          format, bytes.name(), shape.to_string(), to_string(dtype), got, wanted);
  };
  // Memory for all of it only when the bytes are there, or not many.
  if (left >= wanted || wanted <= kTrustedBytes) {
    TensorBytes content(cohort::internal::allocate_tensor(dtype, shape),
                        static_cast<size_t>(wanted));
    check_got(bytes.read(content.bytes()));
    return content;
  }
  std::vector<std::byte> content = read_growing(bytes, wanted);
  check_got(content.size());
  return TensorBytes(std::move(content));
}

void check_at_end(std::string_view format, BufferedBytes& bytes, const Shape& shape) {
  if (bytes.window().empty()) return;
  raise(Code::DataLoss, "[{}] '{}' goes on after the elements of shape {}", format, bytes.name(),
        shape.to_string());
}

}  // namespace cohort::data::internal
