#pragma once

#include "rpc/greeting.h"
#include "transport/party.h"
#include "transport/shared_memory.h"

namespace cohort::internal {

// The change from a greeting by gRPC to shared memory, on the side that answers it.
class MemoryOffer {
 public:
  // `accept` gets the connections of those who take up an offer.
  MemoryOffer(Peer self, Party::Accept accept)
      : self_(std::move(self)), accept_(std::move(accept)) {}

  // Adds an offer to the answer when the caller is on this host and wants one.
  void add_to(Greeting& answer, const Greeting& from);

 private:
  const Peer self_;
  const Party::Accept accept_;
  SharedMemoryListener listener_;  // last: it calls accept_ until its end
};

// On the side that has called: null when nothing was offered. Throws when it does not work, as
// where two containers share a kernel and nothing else.
std::shared_ptr<Connection> take_up_offer(const Greeting& from, const Peer& self,
                                          Deadline deadline);

}  // namespace cohort::internal
