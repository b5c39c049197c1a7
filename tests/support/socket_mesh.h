#pragma once

#include <sys/un.h>

#include <chrono>
#include <thread>

#include "support/connected_group.h"
#include "support/socket_connection.h"

namespace cohort {

// Connects processes that know a directory and their ranks: each listens there, and asks the lower
// ones. For tests and benchmarks.
inline internal::Group group_in_directory(const std::string& directory, int rank, int size) {
  const auto address_of = [&](int member) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = directory + "/" + std::to_string(member);
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    return address;
  };
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_un own = address_of(rank);
  if (bind(listener, reinterpret_cast<const sockaddr*>(&own), sizeof(own)) != 0 ||
      listen(listener, size) != 0) {
    internal::raise(Code::Unavailable, "[Socket] can not listen in {}", directory);
  }
  std::vector<internal::Peer> peers;
  for (int member = 0; member < size; ++member) {
    peers.push_back({.name = "/job:worker/task:" + std::to_string(member)});
  }
  std::vector<std::shared_ptr<internal::Connection>> connections(static_cast<size_t>(size));
  const auto take = [&](int member, int socket) {
    connections[static_cast<size_t>(member)] =
        std::make_shared<SocketConnection>(socket, peers[static_cast<size_t>(member)]);
  };
  for (int member = 0; member < rank; ++member) {
    const int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_un address = address_of(member);
    while (connect(made, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (::send(made, &rank, sizeof(rank), MSG_NOSIGNAL) != sizeof(rank)) std::abort();
    take(member, made);
  }
  for (int member = rank + 1; member < size; ++member) {
    const int came = accept(listener, nullptr, nullptr);
    int who = 0;
    if (recv(came, &who, sizeof(who), MSG_WAITALL) != sizeof(who)) std::abort();
    take(who, came);
  }
  close(listener);
  return connected_group(rank, peers, std::move(connections));
}

}  // namespace cohort
