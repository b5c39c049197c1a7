#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cohort/values.h"

// How tensors are grouped into packs, which are sent as one message, and the memory of a pack.
namespace cohort::internal {

// By count: `total` elements in `packs` parts of equal size, the last one taking what division
// leaves over: 23 in 4 are 5, 5, 5, 8.
std::vector<int64_t> equal_packs(int64_t total, int packs);

// By bytes: positions of `bytes`, in order, in groups. A group is full once it exceeds `limit`, so
// the tensor that takes it there is still part of it. One group when the limit is 0 or a size is
// unknown (negative).
std::vector<std::vector<size_t>> packs_by_bytes(std::span<const int64_t> bytes, int64_t limit);

// The memory of a Pack: this member's and, where it is shared, that of the other members.
class PackMemory {
 public:
  PackMemory(DType dtype, std::vector<Shape> shapes);

  // Bytes that every member needs.
  size_t bytes() const { return static_cast<size_t>(count() * size_of(dtype)); }
  int64_t count() const { return offsets_.back(); }
  std::byte* data(size_t index) const { return own + offset(index); }

  const DType dtype;
  const std::vector<Shape> shapes;
  // Set by the group that makes it:
  const void* maker = nullptr;  // only compared
  uint64_t number = 0;          // of the call, the same on all members
  // Set by the engine that makes it:
  std::byte* own = nullptr;
  std::vector<std::byte*> all;            // by rank; empty where memory is not shared
  std::vector<const std::byte*> sources;  // the same
  std::shared_ptr<const void> holder;     // keeps the memory mapped

 private:
  int64_t offset(size_t index) const { return offsets_[index] * size_of(dtype); }

  std::vector<int64_t> offsets_;  // of the tensors, in elements; then the number of all elements
};

}  // namespace cohort::internal
