#pragma once

#include <chrono>

#include "cluster/link.h"
#include "cluster/timers.h"

namespace cohort::internal {

// Gives up clients that are silent. One that dies ends its connection; one that is frozen keeps it,
// and with it sessions and what they hold. Clients listen nowhere, so they are asked on their own
// connection, which a thread of theirs always reads. Thread-safe.
class ClientWatch {
 public:
  // `limit`: how long a client may be silent.
  explicit ClientWatch(std::chrono::milliseconds limit) : limit_(limit) {}

  // Until the link ends, or is closed here with the reason.
  void watch(const Link::Pointer& client) { look_later(client, 0, 0); }

 private:
  // `received`: messages of the client before; `silent`: looks in a row without a new one.
  void look_later(const std::weak_ptr<Link>& client, uint64_t received, int silent);
  void look(const Link::Pointer& client, uint64_t received, int silent);

  const std::chrono::milliseconds limit_;
  Timers timers_;
};

}  // namespace cohort::internal
