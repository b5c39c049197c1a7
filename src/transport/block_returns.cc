#include "transport/block_returns.h"

#include "transport/nonsense.h"

namespace cohort::internal {

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
  constexpr uint64_t kAlignment = 64;
  if (record.offset > arena.size() || record.size > arena.size() - record.offset ||
      record.offset % kAlignment != 0) {
    raise_nonsense(fmt::format("a block at {} of {} bytes, in an arena of {}", record.offset,
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
  if (const auto bells = bells_.lock()) bells->ring(PeerSignals::Room);
}

}  // namespace cohort::internal
