#include "checkpoint/tensor_bytes.h"

#include <bit>
#include <cstring>
#include <vector>

#include "base/raise.h"
#include "tensor/body.h"
#include "tensor/memory.h"

namespace cohort::internal {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian");

constexpr size_t kLengthBytes = sizeof(uint64_t);

std::string encode(const std::vector<std::string>& values) {
  std::string bytes(values.size() * kLengthBytes, '\0');
  for (size_t i = 0; i < values.size(); ++i) {
    const uint64_t length = values[i].size();
    std::memcpy(bytes.data() + i * kLengthBytes, &length, kLengthBytes);
  }
  for (const std::string& value : values) bytes += value;
  return bytes;
}

}  // namespace

TensorBytes::TensorBytes(Tensor tensor)
    : tensor_(std::move(tensor)),
      encoded_(tensor_.dtype() == kString ? encode(strings(tensor_)) : std::string()) {}

std::string_view TensorBytes::view() const {
  if (tensor_.dtype() == kString) return encoded_;
  return {reinterpret_cast<const char*>(element_bytes(tensor_)),
          static_cast<size_t>(tensor_.size() * size_of(tensor_.dtype()))};
}

Tensor decode_strings(std::string_view bytes, const Shape& shape, std::string_view what) {
  const auto count = static_cast<uint64_t>(shape.num_elements());
  if (count > bytes.size() / kLengthBytes) {
    raise(Code::DataLoss, "{}: {} bytes do not hold {} strings", what, bytes.size(), count);
  }
  std::string_view rest = bytes.substr(count * kLengthBytes);
  std::vector<std::string> values;
  values.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t length = 0;
    std::memcpy(&length, bytes.data() + i * kLengthBytes, kLengthBytes);
    if (length > rest.size()) {
      raise(Code::DataLoss, "{}: string {} of {} is said to have {} bytes, of {} left", what, i,
            count, length, rest.size());
    }
    values.emplace_back(rest.substr(0, length));
    rest.remove_prefix(length);
  }
  if (!rest.empty()) raise(Code::DataLoss, "{}: {} bytes too many", what, rest.size());
  return Tensor::from(std::move(values), shape);
}

}  // namespace cohort::internal
