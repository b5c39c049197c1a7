#pragma once

#include <fmt/format.h>

#include "base/host_identity.h"
#include "membership/member_connections.h"
#include "rpc/grpc_endpoint.h"

namespace cohort {

// Threads of this process as members that connect as tasks do: each has an endpoint of that kind.
// Must outlive the communicators.
struct EndpointGroups {
  EndpointGroups(int size, internal::TransportKind kind) {
    std::vector<internal::PendingConnections> pending(static_cast<size_t>(size));
    std::vector<internal::Peer> peers;
    for (const internal::PendingConnections& connections : pending) {
      const std::string name = fmt::format("task {}", peers.size());
      endpoints.push_back(internal::make_endpoint(
          {.self = {.name = name, .incarnation = peers.size() + 1, .address = "127.0.0.1:0"},
           .transport = kind},
          connections.accept()));
      peers.push_back(endpoints.back()->self());
    }
    for (size_t rank = 0; rank < pending.size(); ++rank) {
      internal::Group& group =
          groups.emplace_back(internal::Group{.rank = static_cast<int>(rank), .peers = peers});
      group.hosts.assign(peers.size(), internal::host_identity());
      pending[rank].open(endpoints[rank], group);
    }
  }

  std::vector<std::shared_ptr<internal::Endpoint>> endpoints = {};
  std::vector<internal::Group> groups = {};
};

}  // namespace cohort
