#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "transport/connection.h"

namespace cohort::internal {

// What somebody waits for: messages on a connection.
struct PendingWait {
  std::shared_ptr<Connection> on = {};
  std::function<bool()> is_open = {};  // whether something is still expected there
};

// One end of a connection within this process whose messages are delivered by the thread that sends
// them, before send() returns: nothing is woken, nothing is queued and nothing waits. So, unlike
// elsewhere, several threads may deliver at the same time.
class DirectConnection : public Connection {
 public:
  using PendingWaits = std::function<std::optional<PendingWait>()>;
  // What this side waits for itself before it can answer. A thread of the other side that waits for
  // the answer asks for it and reads that connection meanwhile, so that no second thread is woken
  // to hand it on. Not called after the `ended` event.
  virtual void set_errands(PendingWaits errands) = 0;
};

// Both ends. The first belongs to `first` and says that its peer is `second`; the second the other
// way round.
std::pair<std::shared_ptr<DirectConnection>, std::shared_ptr<DirectConnection>> connect_directly(
    const Peer& first, const Peer& second);

}  // namespace cohort::internal
