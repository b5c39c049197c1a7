#pragma once

#include "base/host_identity.h"
#include "base/raise.h"
#include "membership/member_connections.h"

namespace cohort {

// The connections of members that are connected from the beginning.
class OpenConnectionsOnly : public internal::MemberConnections {
 public:
  explicit OpenConnectionsOnly(std::vector<std::shared_ptr<internal::Connection>> connections)
      : connections_(std::move(connections)) {}

  void listen(Accept accept) override {
    for (size_t i = 0; i < connections_.size(); ++i) {
      if (connections_[i]) accept(static_cast<int>(i), std::move(connections_[i]));
    }
  }
  std::shared_ptr<internal::Connection> connect(int rank, internal::Deadline,
                                                const std::function<bool()>&) override {
    internal::raise(Code::Unavailable, "[Collective] there is no connection with rank {}", rank);
  }

 private:
  std::vector<std::shared_ptr<internal::Connection>> connections_;
};

// A group of processes on this host: `connections` has this member's end by rank, and null at its
// own.
inline internal::Group connected_group(
    int rank, std::vector<internal::Peer> peers,
    std::vector<std::shared_ptr<internal::Connection>> connections) {
  internal::Group group{.rank = rank, .peers = std::move(peers)};
  group.hosts.assign(group.peers.size(), internal::host_identity());
  group.connections = std::make_shared<OpenConnectionsOnly>(std::move(connections));
  return group;
}

}  // namespace cohort
