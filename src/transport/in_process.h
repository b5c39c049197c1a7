#pragma once

#include <map>
#include <mutex>
#include <utility>

#include "base/thread.h"
#include "transport/message_queue.h"
#include "transport/party.h"

namespace cohort::internal {

// Both ends of a connection inside of this process. Payloads are shared, not copied. The first
// belongs to `first` and says that its peer is `second`; the second the other way round.
std::pair<std::shared_ptr<Connection>, std::shared_ptr<Connection>> connect_in_process(
    const Peer& first, const Peer& second, QueueLimits limits = {});

// Who listens at which address inside of this process. Thread-safe.
class InProcessNetwork {
 public:
  // Listening ends with it; a call of `accept` that is running is waited for.
  class Listener {
   public:
    virtual ~Listener() = default;
  };

  InProcessNetwork();
  ~InProcessNetwork();  // may happen before its listeners'

  // `accept` gets this end of every new connection, on a thread of the listener. Throws
  // AlreadyExists when somebody listens at self.address.
  std::unique_ptr<Listener> listen(Peer self, Party::Accept accept);

  // Directly: see DirectConnection.
  enum class Hand { Queued, Directly };
  // Null when nobody listens there.
  std::shared_ptr<Connection> try_connect(const std::string& address, const Peer& self,
                                          Hand hand = Hand::Queued);
  // Waits until somebody listens there. Throws Unavailable at the deadline.
  std::shared_ptr<Connection> connect(const std::string& address, const Peer& self,
                                      Deadline deadline, Hand hand = Hand::Queued);

 private:
  class AcceptThread;
  class Registered;
  struct State;
  std::shared_ptr<State> state_;  // shared with the listeners
};

// The one of this process: by it an endpoint finds out that an address is its neighbour's.
InProcessNetwork& network_of_process();

// An endpoint that reaches whoever is in `network`. Without `accept` it is a client's. The network
// must outlive it.
std::unique_ptr<Party> make_in_process_party(InProcessNetwork& network, Peer self,
                                             Party::Accept accept = {});

}  // namespace cohort::internal
