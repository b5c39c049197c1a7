#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "base/sealed_memory.h"
#include "transport/message_codec.h"
#include "transport/peer_signals.h"

namespace cohort::internal {

// What lies in the shared memory for one direction: a ring of records that describe messages, and
// beside the ring an arena of blocks for messages that are too large for it. The other process can
// write anything here at any time: every value is read once, and checked, before it is used.
//
// A thread that goes to sleep says so and then looks once more; a thread that changes something
// looks afterwards whether the other thread sleeps. So that one of the two sees the other, both use
// the atomics in sequentially consistent order.
struct SharedDirection {
  static constexpr size_t kRingBytes = size_t{256} << 10;
  static constexpr size_t kMaxBlocks = 4096;
  static constexpr size_t kMaxCloseStatus = kMaxStatusCauses * (kMaxStatusText + 300);
  // Of `foreground` and `background`.
  enum Attendance : uint32_t { Absent, Awake, Asleep };

  // Written by the sender:
  alignas(64) std::atomic<uint64_t> tail;         // bytes ever put into the ring
  alignas(64) std::atomic<uint32_t> closed;       // 1: the close status is there, no records follow
  alignas(64) std::atomic<uint32_t> room_wanted;  // 1: the sender sleeps; the receiver sets it back
  // Written by the receiver:
  alignas(64) std::atomic<uint64_t> head;      // bytes ever taken out of the ring
  alignas(64) std::atomic<uint64_t> returned;  // blocks ever given back
  // Attendance of the two readers; the sender that wakes a reader sets it to Awake.
  alignas(64) std::atomic<uint32_t> foreground;
  alignas(64) std::atomic<uint32_t> background;

  alignas(64) std::atomic<uint32_t> close_status_size;
  std::byte close_status[kMaxCloseStatus];                // why the sender closed the connection
  alignas(64) std::atomic<uint32_t> returns[kMaxBlocks];  // return i is at i % size: a block number
  alignas(64) std::byte ring[kRingBytes];
};

// A record of the ring: where the image of a message (message_image.h) lies.
struct SharedRecord {
  enum Kind : uint32_t {
    Inline = 1,    // the image follows in the ring
    Whole = 2,     // a block holds the image
    Announce = 3,  // the image follows in Parts
    Part = 4,      // a block holds the next bytes of the announced image
  };
  uint32_t kind = 0;
  uint32_t block = 0;      // Whole, Part: the number of the block
  uint64_t offset = 0;     // Whole, Part: its place in the arena
  uint64_t size = 0;       // bytes of the image, or of the part
  uint64_t meta_size = 0;  // of the image
};
// Up to this size two short copies are cheaper than a block.
inline constexpr uint64_t kMaxInlineImage = 4096;
// Of a record and what follows it in the ring.
inline constexpr size_t kMaxRecordBody = 8192;

// Shared memory with the two directions and their arenas. Thread-safe.
class SharedMapping {
 public:
  // Fresh memory, whose size no process can change. Throws ResourceExhausted.
  explicit SharedMapping(size_t arena_bytes);
  // Memory of another process. Throws DataLoss when its size could change or is not one of ours.
  explicit SharedMapping(FileDescriptor memory);

  int descriptor() const { return memory_.descriptor(); }
  // The memory stays; no other process can get it any more.
  void forget_descriptor() { memory_.forget_descriptor(); }
  // 0: from the process that made the memory; 1: to that process.
  SharedDirection& direction(int index) const;
  std::span<std::byte> arena(int index) const;

 private:
  void leave_out_of_dumps();

  SealedMemory memory_;
};

// The two ends of the ring of a SharedDirection. Each process trusts only its own position. Both
// throw DataLoss when the other side's position is impossible.
class RingWriter {
 public:
  explicit RingWriter(SharedDirection& shared) : shared_(shared) {}

  bool has_room(size_t body_bytes) const;
  // Requires has_room(body.size()).
  void write(std::span<const std::byte> body);

 private:
  SharedDirection& shared_;
  uint64_t tail_ = 0;
};

// One thread at a time reads; any thread may call has_record().
class RingReader {
 public:
  explicit RingReader(SharedDirection& shared) : shared_(shared) {}

  bool has_record() const { return shared_.tail.load() != head_.load(std::memory_order_relaxed); }
  // Copies the next record into `body`; false when the ring is empty.
  bool read(std::vector<std::byte>& body);

 private:
  void copy_out(uint64_t from, std::span<std::byte> to) const;

  SharedDirection& shared_;
  std::atomic<uint64_t> head_ = 0;
};

// The sender's side of an arena: which blocks are in use. The other process cannot change this.
// Blocks are taken from the front, so that memory that was used before is used again.
class BlockArena {
 public:
  struct Block {
    uint32_t number = 0;
    uint64_t offset = 0;
    uint64_t size = 0;
  };
  static constexpr uint64_t kGranule = 4096;

  BlockArena(uint64_t bytes, uint32_t max_blocks);

  // `size` bytes in one piece, or nothing.
  std::optional<Block> allocate(uint64_t size);
  // The largest free piece between these sizes, or nothing.
  std::optional<Block> allocate_some(uint64_t at_least, uint64_t at_most);
  // False when no block of that number is in use.
  bool give_back(uint32_t number);

 private:
  using Gap = std::map<uint64_t, uint64_t>::iterator;
  Block take(Gap gap, uint64_t size);

  std::map<uint64_t, uint64_t> gaps_;  // offset to size; no two touch
  std::vector<Block> blocks_;          // by number; size 0: not in use
  std::vector<uint32_t> free_numbers_;
};

// The receiver's side of an arena: lends blocks to payloads, and gives each block back to the
// sender when its last payload is gone, perhaps long after the connection. Thread-safe.
class BlockReturns : public std::enable_shared_from_this<BlockReturns> {
 public:
  BlockReturns(std::shared_ptr<SharedMapping> mapping, int direction,
               const std::shared_ptr<PeerSignals>& signals)
      : mapping_(std::move(mapping)), direction_(direction), signals_(signals) {}

  // The memory of a record's block, which goes back with the last copy of the buffer. Throws
  // DataLoss when the block is not inside the arena.
  Buffer lend(const SharedRecord& record);
  // Whether so much is lent that one more block of this size should be copied instead: otherwise a
  // receiver that keeps payloads would leave the sender no room.
  bool lends_much(uint64_t more_bytes) const {
    return lent_bytes_ + more_bytes > mapping_->arena(direction_).size() / 2 ||
           lent_blocks_ >= SharedDirection::kMaxBlocks / 2;
  }
  // Wakes the sender if it waits: a record was taken out.
  void offer_room();

 private:
  struct Lease;
  void give_back(const Lease& lease);

  const std::shared_ptr<SharedMapping> mapping_;
  const int direction_;
  const std::weak_ptr<PeerSignals> signals_;
  std::atomic<uint64_t> lent_bytes_ = 0;
  std::atomic<uint64_t> lent_blocks_ = 0;
  Mutex mutex_;
  uint64_t returned_ = 0;  // guarded by mutex_
};

// What two processes hand over for a connection.
struct SharedParts {
  std::shared_ptr<SharedMapping> mapping = {};
  std::shared_ptr<PeerSignals> signals = {};
};

}  // namespace cohort::internal
