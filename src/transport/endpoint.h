#pragma once

#include <functional>
#include <memory>
#include <string>

#include "transport/connection.h"

namespace cohort::internal {

// What accepts connections and opens connections to other endpoints. A client's endpoint only opens
// connections. Thread-safe.
class Endpoint {
 public:
  // Gets every connection that another endpoint opens; starts it, or drops it to refuse it. Runs on
  // threads of the endpoint, perhaps on several at once, and should not block.
  using Accept = std::function<void(std::shared_ptr<Connection>)>;

  // Stops as stop() does.
  virtual ~Endpoint() = default;

  // A new connection to the endpoint at "host:port", by the nearest transport that both sides have.
  // While the address has no listener, tries again with growing pauses until the deadline. Throws
  // Unavailable or DeadlineExceeded (no listener, unknown name: the text says which),
  // Unauthenticated or PermissionDenied (certificate, token, role), FailedPrecondition (another
  // version, another cluster). `generation`: see Peer.
  virtual std::shared_ptr<Connection> connect(const std::string& address, Deadline deadline,
                                              uint64_t generation = 0) = 0;

  virtual const Peer& self() const = 0;

  // Accepts no more connections and ends every connection with Cancelled "the server was stopped".
  // The port is free when stop() returns.
  virtual void stop() = 0;
};

}  // namespace cohort::internal
