#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "transport/connection.h"

namespace cohort::internal {

// What a thread waits for: messages on a connection.
struct PendingWait {
  std::shared_ptr<Connection> on = {};
  std::function<bool()> is_open = {};  // whether something is still expected there
};

// One end of a connection inside this process. The thread that sends a message delivers it, before
// send() returns: no thread is woken and nothing is queued. So, unlike elsewhere, several threads
// may deliver at the same time.
class DirectConnection : public Connection {
 public:
  using PendingWaits = std::function<std::optional<PendingWait>()>;
  // `waits` says what this side waits for before it can answer. A thread of the other side that
  // waits for the answer reads that connection meanwhile, so that no second thread is woken to pass
  // the message on. Not called after the `ended` event.
  virtual void set_pending_waits(PendingWaits waits) = 0;
};

// Both ends. The first end belongs to `first` and has the peer `second`; the second end the other
// way round.
std::pair<std::shared_ptr<DirectConnection>, std::shared_ptr<DirectConnection>> connect_directly(
    const Peer& first, const Peer& second);

}  // namespace cohort::internal
