#pragma once

#include "collectives/rendezvous.h"
#include "transport/party.h"

namespace cohort::internal {

// Where connections that others open wait until the members of the group are known: an endpoint has
// its address, which the others must be told, only once it listens. Copies mean the same place.
// Thread-safe.
class MemberDoor {
 public:
  MemberDoor();

  // For the endpoint.
  Party::Accept accept() const;

  // The members by rank, with the names that they connect with, and addresses; this one's own among
  // them. Whoever connects and is none of them, or not the one that was meant (another incarnation,
  // where that is known), is turned away with the reason. Called once. Throws InvalidArgument when
  // two members have one name. `party` is not kept alive: what uses the rendezvous may end on a
  // thread of the endpoint, which must not end that.
  std::shared_ptr<Rendezvous> open(std::weak_ptr<Party> party, int rank,
                                   std::vector<Peer> members) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace cohort::internal
