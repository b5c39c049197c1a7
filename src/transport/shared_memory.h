#pragma once

#include <functional>
#include <memory>
#include <string>

#include "transport/connection.h"

namespace cohort::internal {

// Connections between two processes of one host that run as one user. The two agree elsewhere (over
// a connection that they trust already) on the name of a Unix socket and on a nonce; over that
// socket the listening side then hands out memory that both map.

struct SharedMemoryOptions {
  // Room for large payloads, each way: address space, which becomes memory where it is used. The
  // receiver reads them in place, and copies what it keeps once half of it is kept.
  size_t arena_bytes = size_t{512} << 20;
};

// What two processes must have in common so that this way can work: the same start of the same
// system, the same network namespace (Unix names belong to one), the same user.
std::string shared_memory_domain();

// Waits for the processes that were told its name. Thread-safe.
class SharedMemoryListener {
 public:
  explicit SharedMemoryListener(SharedMemoryOptions options = {});
  SharedMemoryListener(const SharedMemoryListener&) = delete;
  SharedMemoryListener& operator=(const SharedMemoryListener&) = delete;
  // Waits for a call of `arrived` that is running; none begins afterwards.
  ~SharedMemoryListener();

  const std::string& name() const;

  // Runs on a thread of the listener, once or, when nobody comes until the deadline, never.
  using Arrived = std::function<void(std::shared_ptr<Connection>)>;
  // Invents a nonce, for `peer` alone: whoever shows it is taken for `peer`, once.
  std::string expect(Peer self, Peer peer, Deadline deadline, Arrived arrived);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// The connecting side. Throws Unavailable when nobody of that name is there (another host, another
// container), PermissionDenied when it runs as another user or does not know the nonce,
// DeadlineExceeded, DataLoss when it hands out something else.
std::shared_ptr<Connection> connect_shared_memory(const std::string& name, const std::string& nonce,
                                                  Peer self, Peer peer, Deadline deadline);

}  // namespace cohort::internal
