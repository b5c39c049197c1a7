#include "transport/shared_mapping.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/raise.h"
#include "transport/message_image.h"

namespace cohort::internal {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kDirectionBytes = (sizeof(SharedDirection) + kPage - 1) / kPage * kPage;
constexpr size_t kMinArena = size_t{64} << 10;
constexpr size_t kMaxArena = size_t{1} << 40;

static_assert(std::atomic<uint64_t>::is_always_lock_free);

size_t file_bytes(size_t arena_bytes) { return 2 * (kDirectionBytes + arena_bytes); }

size_t bytes_for(size_t arena_bytes) {
  const size_t whole_pages = (arena_bytes + kPage - 1) / kPage * kPage;
  return file_bytes(std::clamp(whole_pages, kMinArena, kMaxArena));
}

SealedMemory map_checked(FileDescriptor memory) {
  const size_t size = sealed_size(memory);
  // The memory is sealed, so the other process cannot make it shorter after this check.
  if (size < file_bytes(kMinArena) || size > file_bytes(kMaxArena) || size % (2 * kPage) != 0) {
    raise(Code::DataLoss,
          "[SharedMemory] the other process offers memory of {} bytes, which is not a valid size",
          size);
  }
  return {std::move(memory), size};
}

constexpr size_t kRingBytes = SharedDirection::kRingBytes;
using Length = uint64_t;  // stands before every body

// What a record takes. Positions stay multiples of a Length, so that a length never wraps around.
size_t padded(size_t body_bytes) {
  return (sizeof(Length) + body_bytes + sizeof(Length) - 1) / sizeof(Length) * sizeof(Length);
}

uint64_t whole_granules(uint64_t size) {
  return (std::max<uint64_t>(size, 1) + BlockArena::kGranule - 1) / BlockArena::kGranule *
         BlockArena::kGranule;
}

}  // namespace

SharedMapping::SharedMapping(size_t arena_bytes)
    : memory_(bytes_for(arena_bytes), SealedMemory::Pages::OnUse) {
  leave_out_of_dumps();
}

SharedMapping::SharedMapping(FileDescriptor memory) : memory_(map_checked(std::move(memory))) {
  leave_out_of_dumps();
}

void SharedMapping::leave_out_of_dumps() {
  ::madvise(memory_.bytes().data(), memory_.bytes().size(), MADV_DONTDUMP);
}

SharedDirection& SharedMapping::direction(int index) const {
  return *reinterpret_cast<SharedDirection*>(memory_.bytes().data() + index * kDirectionBytes);
}

std::span<std::byte> SharedMapping::arena(int index) const {
  const size_t size = memory_.bytes().size() / 2 - kDirectionBytes;
  return memory_.bytes().subspan(2 * kDirectionBytes + index * size, size);
}

bool RingWriter::has_room(size_t body_bytes) const {
  const uint64_t used = tail_ - shared_.head.load();
  // The other process writes `head`, so it is not trusted.
  if (used > kRingBytes) raise_malformed("it has taken more than was sent");
  return kRingBytes - used >= padded(body_bytes);
}

void RingWriter::write(std::span<const std::byte> body) {
  const Length length = body.size();
  std::memcpy(shared_.ring + tail_ % kRingBytes, &length, sizeof(length));
  const size_t at = (tail_ + sizeof(length)) % kRingBytes;
  const size_t before_end = std::min(body.size(), kRingBytes - at);
  std::copy_n(body.begin(), before_end, shared_.ring + at);
  std::copy(body.begin() + before_end, body.end(), shared_.ring);
  tail_ += padded(body.size());
  shared_.tail.store(tail_);
}

void RingReader::copy_out(uint64_t from, std::span<std::byte> to) const {
  const size_t at = from % kRingBytes;
  const size_t before_end = std::min(to.size(), kRingBytes - at);
  std::copy_n(shared_.ring + at, before_end, to.begin());
  std::copy_n(shared_.ring, to.size() - before_end, to.begin() + before_end);
}

bool RingReader::read(std::vector<std::byte>& body) {
  const uint64_t head = head_.load(std::memory_order_relaxed);
  const uint64_t available = shared_.tail.load(std::memory_order_acquire) - head;
  if (available == 0) return false;
  if (available > kRingBytes || available < sizeof(Length))
    raise_malformed("a position in the ring");
  // Read once: the other process could change the length between the check and the copy.
  Length length = 0;
  copy_out(head, std::as_writable_bytes(std::span(&length, 1)));
  if (length > kMaxRecordBody || padded(length) > available) raise_malformed("a record's length");
  body.resize(length);
  copy_out(head + sizeof(Length), body);
  head_.store(head + padded(length), std::memory_order_relaxed);
  shared_.head.store(head + padded(length));
  return true;
}

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
      record.offset % kMemoryAlignment != 0) {
    raise_malformed(fmt::format("a block at {} of {} bytes, in an arena of {}", record.offset,
                                record.size, arena.size()));
  }
  auto lease = std::make_shared<Lease>(shared_from_this(), record.block, record.size);
  return {arena.subspan(record.offset, record.size), std::move(lease)};
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
