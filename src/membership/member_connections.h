#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transport/connection.h"

namespace cohort::internal {

// How a member opens connections to the other members of its group and gets theirs. Thread-safe.
class MemberConnections {
 public:
  // Gets this end of connections that other members open, on any thread, not started.
  using Accept = std::function<void(int rank, std::shared_ptr<Connection>)>;

  virtual ~MemberConnections() = default;

  // Called once, before connect. Connections that were opened before come now.
  virtual void listen(Accept accept) = 0;
  // A new connection to that member, not started. Throws Unavailable or DeadlineExceeded.
  // `is_wanted`: see Endpoint::connect.
  virtual std::shared_ptr<Connection> connect(int rank, Deadline deadline,
                                              const std::function<bool()>& is_wanted = {}) = 0;
};

// One member's view of a group of tasks, which does not change: when a member is lost or joins, the
// group is succeeded by one of a higher generation.
struct Group {
  uint64_t generation = 1;
  int rank = 0;
  std::vector<Peer> peers = {};  // by rank, this member among them
  // By rank: members with equal texts share memory; a member with an empty text shares with none.
  std::vector<std::string> hosts = {};
  std::shared_ptr<MemberConnections> connections = {};

  int size() const { return static_cast<int>(peers.size()); }
};

// A group of threads of this process: element k is what member k needs.
std::vector<Group> in_process_groups(const std::vector<Peer>& peers);

// Keeps connections that other members open until the group is known: an endpoint knows its address
// only when it listens, and others may connect from then on. Copies share their state. Thread-safe.
class PendingConnections {
 public:
  PendingConnections();

  // For the endpoint.
  Endpoint::Accept accept() const;

  // Sets group.connections; the other fields are set already. A connection from another task, from
  // another incarnation of a member (where the group knows the incarnation) or for another
  // generation is closed with the reason. Called once. Throws InvalidArgument if two members have
  // one name. `endpoint` is not kept alive: the last user of the connections may run on a thread of
  // the endpoint, which must not destroy the endpoint.
  void open(std::weak_ptr<Endpoint> endpoint, Group& group) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace cohort::internal
