#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "transport/message.h"
#include "transport/peer_signals.h"
#include "transport/shared_mapping.h"
#include "transport/shared_record.h"

namespace cohort::internal {

// The receiver's side of an arena: lends blocks to payloads, and gives each back to the sender when
// its last payload is gone, perhaps long after the connection. Thread-safe.
class BlockReturns : public std::enable_shared_from_this<BlockReturns> {
 public:
  BlockReturns(std::shared_ptr<SharedMapping> mapping, int direction,
               const std::shared_ptr<PeerSignals>& bells)
      : mapping_(std::move(mapping)), direction_(direction), bells_(bells) {}

  // The memory of a record's block; goes back with the last copy. Throws DataLoss when that is not
  // inside of the arena.
  Buffer lend(const SharedRecord& record);
  // So much is lent that one more of this size should be copied instead: else a receiver that keeps
  // things would leave the sender no room.
  bool lends_much(uint64_t more_bytes) const;
  // Wakes the sender if it waits: something was taken out.
  void offer_room();

 private:
  struct Lease;
  void give_back(const Lease& lease);

  const std::shared_ptr<SharedMapping> mapping_;
  const int direction_;
  const std::weak_ptr<PeerSignals> bells_;
  std::atomic<uint64_t> lent_bytes_ = 0;
  std::atomic<uint64_t> lent_blocks_ = 0;
  std::mutex mutex_;
  uint64_t returned_ = 0;  // guarded by mutex_
};

}  // namespace cohort::internal
