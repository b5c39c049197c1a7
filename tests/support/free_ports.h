#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>

#include <atomic>
#include <string>
#include <vector>

#include "cohort/cluster.h"
#include "cohort/error.h"

namespace cohort::test {

// How many ports this process holds, each with one descriptor.
inline std::atomic<int> held_ports = 0;

// Binds a socket to a port that the system chooses, and returns the port. The process holds the
// socket until it ends. As with cli::HeldPort, the system gives a bound port to no other process,
// and a server that names the port and sets SO_REUSEADDR (as gRPC does) may listen there. So no
// other test takes the port before a server listens, or while a server is restarted.
inline int hold_free_port() {
  const int on = 1;
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw Error(Code::ResourceExhausted, "no port is free");
  }
  ++held_ports;
  return ntohs(address.sin_port);
}

// Addresses on this host that no process listens at. This process holds the ports until it ends.
inline std::vector<std::string> free_addresses(int count) {
  std::vector<std::string> addresses;
  for (int i = 0; i < count; ++i) {
    addresses.push_back("localhost:" + std::to_string(hold_free_port()));
  }
  return addresses;
}

// A cluster of `ps` and `worker` tasks on this host.
inline ClusterSpec free_cluster(int num_ps, int num_workers) {
  const std::vector<std::string> all = free_addresses(num_ps + num_workers);
  return ClusterSpec(
      std::map<std::string, TaskList>{{"ps", TaskList(all.begin(), all.begin() + num_ps)},
                                      {"worker", TaskList(all.begin() + num_ps, all.end())}});
}

}  // namespace cohort::test
