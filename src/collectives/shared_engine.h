#pragma once

#include <array>
#include <atomic>

#include "base/sealed_memory.h"
#include "base/waiting.h"
#include "collectives/algorithms.h"
#include "collectives/engine.h"

namespace cohort::internal {

// The memory in which the members on one host work.
class SharedSegment : public SealedMemory {
 public:
  using SealedMemory::SealedMemory;
  // Zeroed. Throws ResourceExhausted if the system does not have that much memory.
  static std::shared_ptr<SharedSegment> create(size_t bytes) {
    return std::make_shared<SharedSegment>(bytes, Pages::AtOnce);
  }
  // Maps the segment of another process, which passed its descriptor. Throws DataLoss if the
  // segment is not sealed or has another size.
  static std::shared_ptr<SharedSegment> map(FileDescriptor memory, size_t bytes);

  std::byte* data() const { return bytes().data(); }
};

// One zeroed segment for all members: the first member makes it and passes its descriptor to the
// others. Returns null on every member if one of them cannot map it; the log says why.
std::shared_ptr<SharedSegment> share_segment(Exchange& exchange, size_t bytes);

// What a member writes and the others read. The two parts are written at different times, so each
// has its own cache lines.
struct MemberSlot {
  struct alignas(128) Coming {
    std::atomic<uint64_t> calls;  // begun
    std::array<std::atomic<uint64_t>, 2> fingerprints;
    std::array<std::atomic<uint64_t>, 2> sites;
    std::atomic<uint64_t> staged;  // rounds whose values are there
  } coming;
  struct alignas(128) Going {
    std::atomic<uint64_t> reduced;  // rounds whose slice is reduced
    std::atomic<uint64_t> taken;    // rounds that it has taken everything from
    std::atomic<uint64_t> done;     // calls
  } going;
};

// The progress of members on one host, and the values that they exchange, in shared memory.
// Counters only grow. A member that waits polls for some microseconds and then sleeps longer and
// longer: it needs no wake-up, and a process that dies leaves no lock.
//
// Values come in rounds. In each round every member puts a chunk into a slot of its own, and the
// others take from it what they need. Each member has several slots, so it can put the next chunk
// while others still take the last one.
class SharedBoard {
 public:
  static constexpr size_t kChunkBytes = size_t{128} << 10;
  static constexpr uint64_t kSlots = 4;

  // The bytes that a group of that many members needs.
  static size_t bytes(int members) {
    return static_cast<size_t>(members) * (kSlots * kChunkBytes + sizeof(MemberSlot));
  }
  // `memory` is shared and was zeroed.
  SharedBoard(CollectiveGroup& group, std::byte* memory);

  int rank() const { return group_.rank(); }
  int size() const { return group_.size(); }

  // Says that this member has come to the call, and waits until all members have. Throws if their
  // calls differ.
  void meet(const Call& call);
  // The same when the members have finished the call.
  void finish(const Call& call);

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
    own().coming.staged.store(first_ + round + 1, std::memory_order_release);
  }
  // Takes a free slot and puts a copy of `from` there.
  void put(uint64_t round, const std::byte* from, size_t bytes);
  // A member's chunk, once it is in its slot.
  std::byte* chunk_of(int rank, uint64_t round) {
    await(*call_, rank, members_[rank].coming.staged, first_ + round + 1);
    return slot(rank, round);
  }
  std::byte* slot(int rank, uint64_t round) const {
    const uint64_t number = static_cast<uint64_t>(rank) * kSlots + (first_ + round) % kSlots;
    return chunks_ + number * kChunkBytes;
  }
  // This member's part of a round is reduced; await_reduced waits for that of another member.
  void reduced(uint64_t round) {
    own().going.reduced.store(first_ + round + 1, std::memory_order_release);
  }
  void await_reduced(int rank, uint64_t round) {
    await(*call_, rank, members_[rank].going.reduced, first_ + round + 1);
  }
  // This member needs nothing of that round any more.
  void taken(uint64_t round) {
    own().going.taken.store(first_ + round + 1, std::memory_order_release);
  }

 private:
  MemberSlot& own() { return members_[group_.rank()]; }

  // Waits until that member's `counter` is at least `value`.
  void await(const Call& call, int rank, const std::atomic<uint64_t>& counter, uint64_t value) {
    for (int look = 0; look < looks_; ++look) {
      if (counter.load(std::memory_order_acquire) >= value) return;
      relax_core();
    }
    await_long(call, rank, counter, value);
  }
  void await_long(const Call& call, int rank, const std::atomic<uint64_t>& counter, uint64_t value);
  void await_others(const Call& call, std::atomic<uint64_t> MemberSlot::Going::*counter,
                    uint64_t value) {
    for (int rank = 0; rank < group_.size(); ++rank) {
      if (rank != group_.rank()) await(call, rank, members_[rank].going.*counter, value);
    }
  }

  CollectiveGroup& group_;
  std::byte* const chunks_;
  MemberSlot* const members_;  // by rank
  // With more members than cores, the awaited member may need the core of this one.
  const int looks_;
  const Call* call_ = nullptr;
  uint64_t first_ = 0;  // the call's first round, counted from the beginning of the group
  uint64_t next_ = 0;
};

// For members on one host: values are written once into memory that all members map, and reduced
// from there. Members may be threads of one process.
class SharedEngine : public Engine {
 public:
  // `segment` has SharedBoard::bytes.
  SharedEngine(CollectiveGroup& group, std::shared_ptr<SharedSegment> segment);

  std::string_view kind() const override { return "shared-memory"; }
  void all_reduce(const Call& call, const Buffer& values, std::byte* out) override;
  void reduce(const Call& call, const Buffer& values, std::byte* out) override;
  void reduce_scatter(const Call& call, const Buffer& values, std::byte* out) override;
  void broadcast(const Call& call, const Buffer& values, std::byte* out) override;
  void all_gather(const Call& call, const Buffer& own, const Allocate& allocate) override;
  void barrier(const Call& call) override;
  void allocate(const Call& call, PackMemory& pack) override;
  void all_reduce(const Call& call, PackMemory& pack) override;

 private:
  const std::shared_ptr<SharedSegment> segment_;
  SharedBoard board_;
};

}  // namespace cohort::internal
