#include "transport/peer_signals.h"

#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cerrno>

#include "base/raise.h"
#include "transport/unix_socket.h"

namespace cohort::internal {
namespace {

FileDescriptor make_counter() {
  FileDescriptor made(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!made)
    raise(Code::ResourceExhausted, "[SharedMemory] this process has no file descriptors left");
  return made;
}

}  // namespace

PeerSignals::PeerSignals(std::array<FileDescriptor, kCount> sockets)
    : sockets_(std::move(sockets)), own_{make_counter(), make_counter(), FileDescriptor()} {}

void PeerSignals::ring(Bell bell) {
  // Failing is fine: either rings are waiting to be heard already, or nobody is there.
  (void)::send(sockets_[bell].get(), "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void PeerSignals::wake(Bell bell) {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(own_[bell].get(), &one, sizeof(one));
}

void PeerSignals::wait(std::initializer_list<Bell> bells, Deadline deadline) {
  // A closed socket would not let anybody sleep; where there is nothing else to wait for, nobody is
  // to.
  const bool broken = is_broken();
  std::array<int, 2 * kCount> waited;
  waited.fill(-1);
  for (const Bell bell : bells) {
    if (!broken || !own_[bell]) waited[bell] = sockets_[bell].get();
    waited[kCount + bell] = own_[bell].get();
  }
  const std::vector<bool> readable = wait_readable(waited, deadline);
  for (size_t i = 0; i < kCount; ++i) {
    if (readable[i]) drain(waited[i]);
    uint64_t rings = 0;
    if (readable[kCount + i]) (void)!::read(waited[kCount + i], &rings, sizeof(rings));
  }
}

void PeerSignals::drain(int socket) {
  std::array<char, 64> rings;
  const ssize_t got = ::recv(socket, rings.data(), rings.size(), MSG_DONTWAIT);
  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
    broken_.store(true, std::memory_order_release);
  }
}

void PeerSignals::shut() {
  for (const FileDescriptor& socket : sockets_) ::shutdown(socket.get(), SHUT_RDWR);
}

}  // namespace cohort::internal
