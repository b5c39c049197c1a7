#pragma once

#include <functional>
#include <memory>
#include <string>

#include "transport/connection.h"
#include "transport/descriptor_listener.h"
#include "transport/shared_mapping.h"

namespace cohort::internal {

// Connections between two processes with one host_identity(). The connecting side gets descriptors
// from the listening side: of memory that both map, and of the sockets of their signals.

// Waits for the processes that know its name. Thread-safe.
class SharedMemoryListener {
 public:
  // `arena_bytes`: room for large payloads, each way. This is address space, which becomes memory
  // where it is used. The receiver reads payloads in place, and copies further payloads once it
  // keeps half of the arena.
  explicit SharedMemoryListener(size_t arena_bytes = size_t{512} << 20)
      : arena_bytes_(arena_bytes) {}

  const std::string& name() const { return listener_.name(); }

  // Runs once on a thread of the listener, or never if the peer does not connect in time. The
  // listener's destructor waits for a running call; none begins afterwards.
  using Arrived = std::function<void(std::shared_ptr<Connection>)>;
  // Makes a nonce for `peer` alone: the first process that shows it is taken for `peer`.
  std::string expect(Peer self, Peer peer, Deadline deadline, Arrived arrived);

 private:
  const size_t arena_bytes_;
  DescriptorListener listener_;
};

// The connecting side. Throws as connect_unix() and request_descriptors() do.
std::shared_ptr<Connection> connect_shared_memory(const std::string& name, const std::string& nonce,
                                                  Peer self, Peer peer, Deadline deadline);

// Its first step, for tests of what a hostile process could do.
SharedParts request_memory(const std::string& name, const std::string& nonce, Deadline deadline);

}  // namespace cohort::internal
