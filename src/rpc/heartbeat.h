#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "cohort/credentials.h"
#include "transport/connection.h"

namespace cohort::internal {

struct HeartbeatOptions {
  Credentials credentials = {};
  std::chrono::milliseconds interval{500};  // between two questions
  std::chrono::milliseconds limit{10'000};  // how long a peer may be silent
};

// Asks peers again and again whether they are there, on a thread and on connections of its own, so
// that no amount of work or traffic delays it. Thread-safe.
class Heartbeat {
 public:
  explicit Heartbeat(HeartbeatOptions options);
  ~Heartbeat();  // no callback afterwards

  // Called once, on the thread of the heartbeat. Unavailable: the peer's process has ended, which
  // is noticed within two intervals, or it was silent for longer than the limit. Aborted: another
  // incarnation answers. Then, or when the credentials do not fit, the peer is not asked any more.
  using Lost = std::function<void(const Status& why)>;
  // Asks `peer` from now on. Replaces what is known of a peer at that address. Throws as
  // check_target.
  void watch(const Peer& peer, Lost lost);
  // No callback for that peer after it returns, unless it is called by one.
  void forget(const Peer& peer);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cohort::internal
