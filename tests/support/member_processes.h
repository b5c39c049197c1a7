#pragma once

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <optional>

#include "base/host_identity.h"
#include "collectives/communicator_access.h"
#include "rpc/grpc_endpoint.h"
#include "support/child_processes.h"
#include "support/connected_group.h"
#include "support/socket_connection.h"

namespace cohort {

// The members of a group as processes of this host.
class MemberProcesses {
 public:
  // What a member needs to make a communicator.
  struct Membership {
    internal::Group group = {};
    std::shared_ptr<internal::Endpoint> endpoint = nullptr;  // must outlive the communicator

    Communicator make_communicator(bool share_memory) const {
      internal::Group members = group;
      if (!share_memory) members.hosts.assign(members.hosts.size(), "");
      return internal::make_communicator(std::move(members));
    }
  };
  // What a member runs; the result is its exit code.
  using Body = std::function<int(Membership)>;

  // Connected by sockets that are there from the beginning; or, with a name for COHORT_TRANSPORT,
  // by endpoints that listen and find each other as tasks do.
  MemberProcesses(int size, const Body& body, const std::optional<std::string>& transport = {}) {
    if (transport) {
      start_endpoints(size, body, *transport);
    } else {
      start_sockets(size, body);
    }
  }

  static std::string name_of(int rank) { return "/job:worker/task:" + std::to_string(rank); }
  void kill_member(int rank) { children_.kill_child(rank); }
  // The exit code; -1 when a signal ended it.
  int wait_for(int rank) { return children_.wait_for(rank); }

 private:
  using Ends = std::vector<std::vector<int>>;  // [a][b] is a's end of the connection with b
  // Where members tell each other at which port they listen.
  using Ports = std::array<std::atomic<int>, 64>;

  void start_sockets(int size, const Body& body) {
    std::vector<internal::Peer> peers;
    for (int rank = 0; rank < size; ++rank) peers.push_back({.name = name_of(rank)});
    Ends ends(static_cast<size_t>(size), std::vector<int>(static_cast<size_t>(size), -1));
    for (size_t a = 0; a < ends.size(); ++a) {
      for (size_t b = a + 1; b < ends.size(); ++b) {
        std::array<int, 2> pair{};
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0) std::abort();
        ends[a][b] = pair[0];
        ends[b][a] = pair[1];
      }
    }
    for (int rank = 0; rank < size; ++rank) {
      children_.start([&, rank] {
        close_but(ends, rank);
        std::vector<std::shared_ptr<internal::Connection>> connections(peers.size());
        for (size_t other = 0; other < peers.size(); ++other) {
          const int end = ends[static_cast<size_t>(rank)][other];
          if (end >= 0) connections[other] = std::make_shared<SocketConnection>(end, peers[other]);
        }
        return body({connected_group(rank, peers, std::move(connections))});
      });
    }
    close_but(ends, -1);
  }

  // Closes the ends of other members, so that their connections end with their process.
  static void close_but(const Ends& ends, int rank) {
    for (int other = 0; other < static_cast<int>(ends.size()); ++other) {
      if (other == rank) continue;
      for (const int end : ends[static_cast<size_t>(other)]) {
        if (end >= 0) ::close(end);
      }
    }
  }

  void start_endpoints(int size, const Body& body, const std::string& transport) {
    void* const memory =
        mmap(nullptr, sizeof(Ports), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    Ports& ports = *static_cast<Ports*>(memory);
    for (int rank = 0; rank < size; ++rank) {
      children_.start([&, rank] {
        setenv("COHORT_TRANSPORT", transport.c_str(), 1);
        return body(join(ports, rank, size));
      });
    }
    munmap(memory, sizeof(Ports));  // here; the members have it
  }

  static Membership join(Ports& ports, int rank, int size) {
    const internal::PendingConnections pending;
    const std::shared_ptr<internal::Endpoint> endpoint =
        internal::make_endpoint({.self = {.name = name_of(rank),
                                          .incarnation = static_cast<uint64_t>(getpid()),
                                          .address = "127.0.0.1:0"}},
                                pending.accept());
    const std::string& own = endpoint->self().address;
    ports[static_cast<size_t>(rank)] = std::atoi(own.substr(own.rfind(':') + 1).c_str());
    internal::Group group{.rank = rank};
    for (int other = 0; other < size; ++other) {
      std::atomic<int>& port = ports[static_cast<size_t>(other)];
      while (port == 0) sched_yield();
      group.peers.push_back(
          {.name = name_of(other), .address = "127.0.0.1:" + std::to_string(port)});
      group.hosts.push_back(internal::host_identity());
    }
    pending.open(endpoint, group);
    return {group, endpoint};
  }

  ChildProcesses children_;
};

}  // namespace cohort
