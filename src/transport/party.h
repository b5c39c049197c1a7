#pragma once

#include <functional>
#include <memory>
#include <string>

#include "transport/connection.h"

namespace cohort::internal {

// A party that can be connected to and can connect to others: a task, or a client, which nobody
// connects to. Thread-safe.
class Party {
 public:
  // Gets every connection that others open; starts it, or drops it to refuse. Runs on threads of
  // the endpoint, perhaps on several at once, and should not block.
  using Accept = std::function<void(std::shared_ptr<Connection>)>;

  // Stops as stop() does.
  virtual ~Party() = default;

  // A new connection to who listens at "host:port", by the nearest way that both sides know. Tries
  // again with growing pauses until the deadline while nobody listens there. Throws
  // Unavailable or DeadlineExceeded (nobody there, name unknown: the text says which),
  // Unauthenticated or PermissionDenied (certificate, token, role), FailedPrecondition (another
  // version, another cluster).
  virtual std::shared_ptr<Connection> connect(const std::string& address, Deadline deadline) = 0;

  virtual const Peer& self() const = 0;

  // Accepts nothing from here on and ends every connection with Cancelled "the server was stopped".
  // The port is free when it returns.
  virtual void stop() = 0;
};

}  // namespace cohort::internal
