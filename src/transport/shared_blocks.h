#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "transport/message.h"
#include "transport/peer_signals.h"
#include "transport/shared_mapping.h"

namespace cohort::internal {

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
  bool lends_much(uint64_t more_bytes) const;
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
  std::mutex mutex_;
  uint64_t returned_ = 0;  // guarded by mutex_
};

}  // namespace cohort::internal
