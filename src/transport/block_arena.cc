#include "transport/block_arena.h"

#include <algorithm>
#include <utility>

namespace cohort::internal {
namespace {

uint64_t whole_granules(uint64_t size) {
  return (std::max<uint64_t>(size, 1) + BlockArena::kGranule - 1) / BlockArena::kGranule *
         BlockArena::kGranule;
}

}  // namespace

BlockArena::BlockArena(uint64_t bytes, uint32_t max_blocks) : blocks_(max_blocks) {
  if (const uint64_t usable = bytes / kGranule * kGranule; usable > 0) gaps_.emplace(0, usable);
  for (uint32_t number = max_blocks; number > 0; --number) free_numbers_.push_back(number - 1);
}

BlockArena::Block BlockArena::take(Gap gap, uint64_t size) {
  const auto [offset, available] = *gap;
  gaps_.erase(gap);
  if (available > size) gaps_.emplace(offset + size, available - size);
  const uint32_t number = free_numbers_.back();
  free_numbers_.pop_back();
  return blocks_[number] = {number, offset, size};
}

std::optional<BlockArena::Block> BlockArena::allocate(uint64_t size) {
  const uint64_t needed = whole_granules(size);
  if (needed < size || free_numbers_.empty()) return std::nullopt;
  const auto gap = std::find_if(gaps_.begin(), gaps_.end(),
                                [&](const auto& one) { return one.second >= needed; });
  if (gap == gaps_.end()) return std::nullopt;
  return take(gap, needed);
}

std::optional<BlockArena::Block> BlockArena::allocate_some(uint64_t at_least, uint64_t at_most) {
  if (auto whole = allocate(at_most)) return whole;
  const auto largest = std::max_element(
      gaps_.begin(), gaps_.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (free_numbers_.empty() || largest == gaps_.end() || largest->second < at_least) {
    return std::nullopt;
  }
  return take(largest, largest->second);
}

bool BlockArena::give_back(uint32_t number) {
  if (number >= blocks_.size() || blocks_[number].size == 0) return false;
  auto [_, offset, size] = std::exchange(blocks_[number], {});
  free_numbers_.push_back(number);
  auto after = gaps_.lower_bound(offset);
  if (after != gaps_.end() && offset + size == after->first) {
    size += after->second;
    after = gaps_.erase(after);
  }
  if (after != gaps_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == offset) {
      before->second += size;
      return true;
    }
  }
  gaps_.emplace(offset, size);
  return true;
}

}  // namespace cohort::internal
