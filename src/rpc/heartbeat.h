#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "cohort/cluster.h"
#include "transport/connection.h"

namespace cohort::internal {

struct HeartbeatOptions {
  Credentials credentials = {};
  std::chrono::milliseconds interval{500};  // between two questions
  std::chrono::milliseconds limit{10'000};  // how long a peer may be silent
};

// Asks peers again and again whether they are alive, on a thread and on connections of its own, so
// that no amount of work or traffic delays the questions. Thread-safe.
class Heartbeat {
 public:
  explicit Heartbeat(HeartbeatOptions options);
  ~Heartbeat();  // no callback afterwards

  // Called once, on the thread of the heartbeat. Unavailable: the peer's process has ended, which
  // is noticed within two intervals, or the peer was silent for longer than the limit. Aborted:
  // another incarnation answers. Any other code: the credentials do not fit. The peer is not asked
  // any more.
  using Lost = std::function<void(const Status& why)>;
  // Asks `peer` from now on. Replaces a peer at the same address. Throws as check_target.
  void watch(const Peer& peer, Lost lost);
  // No callback for that peer runs after forget() returns, unless the callback itself calls it.
  void forget(const Peer& peer);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cohort::internal
