#pragma once

#include <atomic>
#include <mutex>
#include <optional>

#include "transport/connection.h"
#include "transport/peer_signals.h"
#include "transport/shared_mapping.h"

namespace cohort::internal {

// Whether and why a shared-memory connection has ended. Once ended it stays so, with the same
// reason. Thread-safe.
class SharedEnd {
 public:
  SharedEnd(Peer self, Peer peer, SharedDirection& in, SharedDirection& out, PeerSignals& bells)
      : self_(std::move(self)), peer_(std::move(peer)), in_(in), out_(out), bells_(bells) {}

  // This side ends it: leaves `why` for the other one and wakes everybody. Nothing when ended.
  void close(const Status& why);
  // The same because the other side does not keep to the rules.
  void fail(const Status& why);

  // Nothing while it has not ended.
  std::optional<Status> why();
  // Whether this side ended it: then what came in is not read any more.
  bool is_ours() const { return ours_.load(std::memory_order_acquire); }
  // Quick: whether why() has to be asked.
  bool may_have_ended() const {
    return known_.load(std::memory_order_acquire) || bells_.is_broken() ||
           in_.closed.load(std::memory_order_acquire) != 0;
  }

  const Peer& peer() const { return peer_; }

 private:
  bool set(Status why, bool ours);
  void leave_farewell(const Status& why);
  Status read_farewell() const;

  const Peer self_;
  const Peer peer_;
  SharedDirection& in_;
  SharedDirection& out_;
  PeerSignals& bells_;
  std::atomic<bool> known_ = false;
  std::atomic<bool> ours_ = false;
  std::mutex mutex_;
  std::optional<Status> why_;  // guarded by mutex_
};

}  // namespace cohort::internal
