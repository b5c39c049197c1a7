#include "transport/peer_signals.h"

#include <sys/socket.h>

#include <cerrno>

#include "base/raise.h"
#include "transport/unix_socket.h"

namespace cohort::internal {
namespace {

FileDescriptor make_counter() {
  FileDescriptor made = make_event();
  if (!made)
    raise(Code::ResourceExhausted, "[SharedMemory] this process has no file descriptors left");
  return made;
}

}  // namespace

PeerSignals::PeerSignals(std::array<FileDescriptor, kCount> sockets)
    : sockets_(std::move(sockets)), local_{make_counter(), make_counter(), FileDescriptor()} {}

void PeerSignals::notify(Sleeper sleeper) {
  // Failing is fine: either the socket is full of wake-ups, or the other process is gone.
  (void)::send(sockets_[sleeper].get(), "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void PeerSignals::wake(Sleeper sleeper) {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(local_[sleeper].get(), &one, sizeof(one));
}

void PeerSignals::wait(std::initializer_list<Sleeper> sleepers, Deadline deadline) {
  // A closed socket is always readable, so a sleeper with a local counter waits for that alone. The
  // sender has no other thing to wait for, and is not to sleep.
  const bool broken = is_broken();
  std::array<int, 2 * kCount> waited;
  waited.fill(-1);
  for (const Sleeper sleeper : sleepers) {
    if (!broken || !local_[sleeper]) waited[sleeper] = sockets_[sleeper].get();
    waited[kCount + sleeper] = local_[sleeper].get();
  }
  const std::vector<bool> readable = wait_readable(waited, deadline);
  for (size_t i = 0; i < kCount; ++i) {
    if (readable[i]) drain(waited[i]);
    uint64_t count = 0;
    if (readable[kCount + i]) (void)!::read(waited[kCount + i], &count, sizeof(count));
  }
}

void PeerSignals::drain(int socket) {
  std::array<char, 64> bytes;
  const ssize_t got = ::recv(socket, bytes.data(), bytes.size(), MSG_DONTWAIT);
  // Zero bytes: the other process has shut its end, or has ended.
  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
    broken_.store(true, std::memory_order_release);
  }
}

void PeerSignals::shut() {
  for (const FileDescriptor& socket : sockets_) ::shutdown(socket.get(), SHUT_RDWR);
}

}  // namespace cohort::internal
