#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "transport/connection.h"

namespace cohort::internal {

// How the members of a group find each other: whoever starts them implements it, over whatever
// transport. Thread-safe.
class Rendezvous {
 public:
  // Gets this end of connections that other members open, on any thread, not started.
  using Accept = std::function<void(int rank, std::shared_ptr<Connection>)>;

  virtual ~Rendezvous() = default;

  virtual int rank() const = 0;
  // Everybody, by rank.
  virtual const std::vector<Peer>& members() const = 0;
  // Called once, before connect. What was opened before comes now.
  virtual void listen(Accept accept) = 0;
  // A new connection to that member, not started. Throws Unavailable or DeadlineExceeded.
  virtual std::shared_ptr<Connection> connect(int rank, Deadline deadline) = 0;
};

// Members that are connected already: `connections` has this member's end by rank, and nothing at
// its own.
std::shared_ptr<Rendezvous> make_mesh(int rank, std::vector<Peer> members,
                                      std::vector<std::shared_ptr<Connection>> connections);

// For threads of this process: element k is what member k needs.
std::vector<std::shared_ptr<Rendezvous>> meet_in_process(std::vector<Peer> members);

}  // namespace cohort::internal
