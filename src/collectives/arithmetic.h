#pragma once

#include <algorithm>
#include <cstdint>

#include "cohort/values.h"
#include "transport/message.h"

namespace cohort::internal {

// Numbers to be reduced, of one dtype. The reduction is never Mean, which is a sum that is divided
// in the end.
struct Numbers {
  ReduceOp op = ReduceOp::Sum;
  DType dtype = kFloat32;
  Buffer values = {};

  size_t element() const { return static_cast<size_t>(size_of(dtype)); }
  int64_t count() const { return static_cast<int64_t>(values.bytes.size() / element()); }
};

// Memory that is filled before it is sent and does not change afterwards.
struct FreshBuffer {
  explicit FreshBuffer(size_t size);
  Buffer buffer;
  std::byte* data;
};

// A part of a buffer that keeps the whole alive.
Buffer part_of(const Buffer& whole, size_t begin, size_t end);
// A copy in new memory.
Buffer copy_of(std::span<const std::byte> bytes);

// The reduction of two parts of an operand's dtype, in new memory; the order of the two counts.
Buffer combine(const Numbers& operand, const Buffer& first, const Buffer& second);

// Sums of `dtype` divided by `divisor`, into memory of division_dtype(dtype).
void divide(DType dtype, const std::byte* sums, int64_t count, int64_t divisor, std::byte* out);

// Element borders of part `part` of `parts` equal ones, as bytes.
struct ByteRange {
  size_t begin = 0;
  size_t end = 0;
  size_t size() const { return end - begin; }
};
ByteRange part_bytes(const Numbers& operand, int part, int parts);

// The elements that one of several members reduces.
struct Slice {
  int64_t begin;
  int64_t end;
};

// Slice `part` of `parts` slices of about the same size. No two members write into one cache line,
// whatever the size of an element.
inline Slice slice_of(int64_t count, int part, int parts) {
  constexpr int64_t kLine = 64;
  const int64_t each = (count / parts + kLine - 1) / kLine * kLine;
  return {std::min(count, each * part),
          part == parts - 1 ? count : std::min(count, each * (part + 1))};
}

}  // namespace cohort::internal
