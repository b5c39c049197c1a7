#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "cohort/cluster.h"
#include "cohort/error.h"

namespace cohort::test {

// Addresses on this host that nobody listens at: the system chose the ports a moment ago.
inline std::vector<std::string> free_addresses(int count) {
  std::vector<int> sockets;
  std::vector<std::string> addresses;
  for (int i = 0; i < count; ++i) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (fd < 0 || bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
      throw Error(Code::ResourceExhausted, "no port is free");
    }
    sockets.push_back(fd);
    addresses.push_back("localhost:" + std::to_string(ntohs(address.sin_port)));
  }
  for (const int fd : sockets) close(fd);
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
