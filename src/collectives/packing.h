#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

// How tensors are grouped into packs, which travel as one message.
namespace cohort::internal {

// By count: `total` elements in `packs` parts of equal size, the last one taking what division
// leaves over: 23 in 4 are 5, 5, 5, 8.
std::vector<int64_t> equal_packs(int64_t total, int packs);

// By bytes: positions of `bytes`, in order, in groups. A group is full once it exceeds `limit`, so
// the tensor that takes it there is still part of it. One group when the limit is 0 or a size is
// unknown (negative).
std::vector<std::vector<size_t>> packs_by_bytes(std::span<const int64_t> bytes, int64_t limit);

// The same from the last tensor to the first: gradients are ready in that order.
std::vector<std::vector<size_t>> packs_from_last(std::span<const int64_t> bytes, int64_t limit);

}  // namespace cohort::internal
