#pragma once

#include "collectives/shared_board.h"

namespace cohort::internal {

// Moves values into shared memory, in rounds. In each round every member puts a chunk into a slot
// of its own, and the others take from it what they need. Each member has several slots, so it can
// put the next chunk while others still take the last one.
class Staging {
 public:
  static constexpr size_t kChunkBytes = size_t{128} << 10;
  static constexpr uint64_t kSlots = 4;

  static size_t bytes(int members) { return static_cast<size_t>(members) * kSlots * kChunkBytes; }

  Staging(CollectiveGroup& group, SharedBoard& board, std::byte* memory)
      : group_(group), board_(board), memory_(memory) {}

  // The number of chunks of that many bytes.
  static uint64_t chunks_of(size_t bytes) { return (bytes + kChunkBytes - 1) / kChunkBytes; }

  // A call of that many rounds, numbered from 0, the same on all members.
  void begin(const Call& call, uint64_t rounds) {
    call_ = &call;
    first_ = next_;
    next_ += rounds;
  }

  // The slot for this member's chunk of a round, once no member needs its old content.
  std::byte* free_slot(uint64_t round);
  // The chunk is in its slot.
  void put(uint64_t round) {
    board_.own().coming.staged.store(first_ + round + 1, std::memory_order_release);
  }
  // Takes a free slot and puts a copy of `from` there.
  void put(uint64_t round, const std::byte* from, size_t bytes);
  // A member's chunk, once it is in its slot.
  std::byte* chunk_of(int rank, uint64_t round) {
    board_.await(*call_, rank, board_.slot(rank).coming.staged, first_ + round + 1);
    return slot(rank, round);
  }
  std::byte* slot(int rank, uint64_t round) const {
    const uint64_t number = static_cast<uint64_t>(rank) * kSlots + (first_ + round) % kSlots;
    return memory_ + number * kChunkBytes;
  }
  // This member's part of a round is reduced; await_reduced waits for that of another member.
  void reduced(uint64_t round) {
    board_.own().going.reduced.store(first_ + round + 1, std::memory_order_release);
  }
  void await_reduced(int rank, uint64_t round) {
    board_.await(*call_, rank, board_.slot(rank).going.reduced, first_ + round + 1);
  }
  // This member needs nothing of that round any more.
  void taken(uint64_t round) {
    board_.own().going.taken.store(first_ + round + 1, std::memory_order_release);
  }

  int rank() const { return group_.rank(); }
  int size() const { return group_.size(); }

 private:
  CollectiveGroup& group_;
  SharedBoard& board_;
  std::byte* const memory_;
  const Call* call_ = nullptr;
  uint64_t first_ = 0;  // the call's first round, counted from the beginning of the group
  uint64_t next_ = 0;
};

// All-reduces of staged values; see Algorithm.
void reduce_everything(Staging& staging, const Call& call, const Buffer& values, std::byte* out);
void reduce_slices(Staging& staging, const Call& call, const Buffer& values, std::byte* out);

void staged_reduce(Staging& staging, const Call& call, const Buffer& values, std::byte* out);
void staged_reduce_scatter(Staging& staging, const Call& call, const Buffer& values,
                           std::byte* out);
void staged_broadcast(Staging& staging, const Call& call, const Buffer& values, std::byte* out);
void staged_all_gather(Staging& staging, const Call& call, const Buffer& own,
                       const std::function<std::byte*(std::span<const size_t>)>& allocate);

}  // namespace cohort::internal
