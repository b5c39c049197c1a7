#include "transport/shared_blocks.h"

#include <algorithm>
#include <utility>

#include "transport/message_image.h"

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

struct BlockReturns::Lease {
  Lease(std::shared_ptr<BlockReturns> to, uint32_t number, uint64_t bytes)
      : owner(std::move(to)), block(number), size(bytes) {
    ++owner->lent_blocks_;
    owner->lent_bytes_ += size;
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() { owner->give_back(*this); }

  const std::shared_ptr<BlockReturns> owner;
  const uint32_t block;
  const uint64_t size;
};

Buffer BlockReturns::lend(const SharedRecord& record) {
  const std::span<std::byte> arena = mapping_->arena(direction_);
  if (record.offset > arena.size() || record.size > arena.size() - record.offset ||
      record.offset % kPayloadAlignment != 0) {
    raise_malformed(fmt::format("a block at {} of {} bytes, in an arena of {}", record.offset,
                                record.size, arena.size()));
  }
  auto lease = std::make_shared<Lease>(shared_from_this(), record.block, record.size);
  return {arena.subspan(record.offset, record.size), std::move(lease)};
}

bool BlockReturns::lends_much(uint64_t more_bytes) const {
  return lent_bytes_ + more_bytes > mapping_->arena(direction_).size() / 2 ||
         lent_blocks_ >= SharedDirection::kMaxBlocks / 2;
}

void BlockReturns::give_back(const Lease& lease) {
  SharedDirection& shared = mapping_->direction(direction_);
  {
    const std::lock_guard lock(mutex_);
    shared.returns[returned_ % SharedDirection::kMaxBlocks].store(lease.block,
                                                                  std::memory_order_relaxed);
    shared.returned.store(++returned_);
  }
  --lent_blocks_;
  lent_bytes_ -= lease.size;
  offer_room();
}

void BlockReturns::offer_room() {
  std::atomic<uint32_t>& wanted = mapping_->direction(direction_).room_wanted;
  if (wanted.load() == 0 || wanted.exchange(0) == 0) return;
  if (const auto signals = signals_.lock()) signals->notify(PeerSignals::Room);
}

}  // namespace cohort::internal
