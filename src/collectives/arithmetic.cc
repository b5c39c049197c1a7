#include "collectives/arithmetic.h"

#include <array>
#include <cstring>
#include <memory>

#include "kernels/reduce_elements.h"

namespace cohort::internal {

FreshBuffer::FreshBuffer(size_t size) {
  const std::shared_ptr<std::byte[]> memory(new std::byte[std::max<size_t>(size, 1)]);
  data = memory.get();
  buffer = {{data, size}, memory};
}

Buffer part_of(const Buffer& whole, size_t begin, size_t end) {
  return {whole.bytes.subspan(begin, end - begin), whole.owner};
}

Buffer copy_of(std::span<const std::byte> bytes) {
  const FreshBuffer copy(bytes.size());
  if (!bytes.empty()) std::memcpy(copy.data, bytes.data(), bytes.size());
  return copy.buffer;
}

Buffer combine(const Numbers& operand, const Buffer& first, const Buffer& second) {
  const FreshBuffer result(first.bytes.size());
  const std::array sources{first.bytes.data(), second.bytes.data()};
  reduce_elements(
      {.op = operand.op, .dtype = operand.dtype, .sources = sources, .target = result.data}, 0,
      static_cast<int64_t>(first.bytes.size() / operand.element()));
  return result.buffer;
}

void divide(DType dtype, const std::byte* sums, int64_t count, int64_t divisor, std::byte* out) {
  reduce_elements({.op = ReduceOp::Mean,
                   .dtype = dtype,
                   .sources = {&sums, 1},
                   .target = out,
                   .divisor = divisor},
                  0, count);
}

ByteRange part_bytes(const Numbers& operand, int part, int parts) {
  const int64_t each = operand.count() / parts;
  const int64_t longer = operand.count() % parts;  // so many parts have one element more
  const auto border = [&](int64_t number) {
    return static_cast<size_t>(number * each + std::min(number, longer)) * operand.element();
  };
  return {border(part), border(part + 1)};
}

}  // namespace cohort::internal
