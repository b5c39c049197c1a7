#pragma once

#include "rpc/handshake.h"
#include "transport/endpoint.h"
#include "transport/shared_memory.h"

namespace cohort::internal {

// Moves a connection from gRPC to shared memory, on the side that answers the handshake.
class MemoryOffer {
 public:
  // `accept` gets the connections of the callers that take up an offer.
  MemoryOffer(Peer self, Endpoint::Accept accept)
      : self_(std::move(self)), accept_(std::move(accept)) {}

  // Adds an offer to the answer if the caller is on this host and may use shared memory.
  void add_to(Handshake& answer, const Handshake& from);

 private:
  const Peer self_;
  const Endpoint::Accept accept_;
  SharedMemoryListener listener_;  // last: it calls accept_ until its end
};

// On the calling side: null if nothing was offered. Throws if shared memory does not work, for
// example between two containers that share only the kernel.
std::shared_ptr<Connection> take_up_offer(const Handshake& from, const Peer& self,
                                          Deadline deadline);

}  // namespace cohort::internal
