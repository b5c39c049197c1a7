#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/file_descriptor.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "transport/connection.h"
#include "transport/shared_mapping.h"

namespace cohort::internal {

// Connections between two processes with one host_identity(). The two agree elsewhere (over a
// connection that they trust already) on the name of a Unix socket and on a nonce. Over that socket
// the connecting side sends the nonce, and the listening side answers with memory that both map and
// with the sockets of their signals.

// Waits for the processes that know its name. One thread accepts and serves all handshakes; none
// can hold up another. Thread-safe.
class SharedMemoryListener {
 public:
  // `arena_bytes`: room for large payloads, each way. This is address space, which becomes memory
  // where it is used. The receiver reads payloads in place, and copies further payloads once it
  // keeps half of the arena.
  explicit SharedMemoryListener(size_t arena_bytes = size_t{512} << 20);
  SharedMemoryListener(const SharedMemoryListener&) = delete;
  SharedMemoryListener& operator=(const SharedMemoryListener&) = delete;
  // Waits for a running call of `arrived`; none begins afterwards.
  ~SharedMemoryListener();

  const std::string& name() const { return name_; }

  // Runs once on a thread of the listener, or never if the peer does not connect in time.
  using Arrived = std::function<void(std::shared_ptr<Connection>)>;
  // Makes a nonce for `peer` alone: the first process that shows it is taken for `peer`.
  std::string expect(Peer self, Peer peer, Deadline deadline, Arrived arrived);

 private:
  struct Expected {
    Peer self;
    Peer peer;
    Deadline deadline;
    Arrived arrived;
  };
  // With a process that has not yet sent its whole request.
  struct Handshake {
    FileDescriptor socket;
    Deadline deadline;
    std::string received = {};
  };
  void run(const std::stop_token& stop);
  void accept();
  bool advance(Handshake& handshake);
  bool read_request(Handshake& handshake);
  std::optional<Expected> take_expected(const std::string& nonce);

  const size_t arena_bytes_;
  const std::string name_;
  const FileDescriptor listener_;
  // Closing the second socket wakes the thread that waits for the first.
  std::pair<FileDescriptor, FileDescriptor> wake_;
  std::list<Handshake> handshakes_;  // belongs to the thread
  RareLog rare_log_;

  Mutex mutex_;
  std::map<std::string, Expected> expected_;  // by nonce; guarded by mutex_
  Thread thread_;
};

// The connecting side. Throws Unavailable when no process listens at that name (another host,
// another container), PermissionDenied when that process runs as another user or does not know the
// nonce, DeadlineExceeded, DataLoss when it offers anything but memory.
std::shared_ptr<Connection> connect_shared_memory(const std::string& name, const std::string& nonce,
                                                  Peer self, Peer peer, Deadline deadline);

// The steps of the connecting side, for tests of what a hostile process could do.
std::string memory_request(const std::string& nonce);
SharedParts receive_memory(FileDescriptor socket, Deadline deadline);

}  // namespace cohort::internal
