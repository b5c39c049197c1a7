#include "data/read_tensor.h"

#include "base/raise.h"

namespace cohort::data::internal {
namespace {

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
  auto owner = std::make_shared<std::vector<std::byte>>(std::move(bytes_));
  // A damaged file may hold any byte; a bool is 0 or 1.
  if (dtype == kBool) {
    for (std::byte& value : *owner) value = std::byte{value != std::byte{0}};
  }
  static constexpr std::byte kNothing{};
  const void* data = owner->empty() ? &kNothing : owner->data();
  return Tensor::from_memory(data, dtype, shape, [owner]() mutable { owner.reset(); });
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
  std::vector<std::byte> content = read_growing(bytes, wanted);
  if (static_cast<int64_t>(content.size()) < wanted) {
    raise(Code::DataLoss, "[{}] '{}': shape {} of {} is announced, but only {} of {} bytes follow",
          format, bytes.name(), shape.to_string(), to_string(dtype), content.size(), wanted);
  }
  return TensorBytes(std::move(content));
}

void check_at_end(std::string_view format, BufferedBytes& bytes, const Shape& shape) {
  if (bytes.window().empty()) return;
  raise(Code::DataLoss, "[{}] '{}' goes on after the elements of shape {}", format, bytes.name(),
        shape.to_string());
}

}  // namespace cohort::data::internal
