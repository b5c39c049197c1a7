#include "transport/unix_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/raise.h"
#include "base/random_number.h"

namespace cohort::internal {
namespace {

constexpr int kFlags = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;

FileDescriptor make_socket() {
  FileDescriptor made(::socket(AF_UNIX, kFlags, 0));
  if (!made) raise(Code::ResourceExhausted, "[UnixSocket] no socket: {}", errno_text(errno));
  return made;
}

// Unavailable where the process at the other end is gone or takes nothing, else a local failure.
Code peer_code(int error) {
  switch (error) {
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
    case EAGAIN:
      return Code::Unavailable;
    default:
      return code_of_errno(error);
  }
}

// An abstract name begins with a zero byte.
std::pair<sockaddr_un, socklen_t> address_of(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.empty() || name.size() >= sizeof(address.sun_path)) {
    raise(Code::InvalidArgument, "[UnixSocket] a name has 1 to {} bytes, this one {}",
          sizeof(address.sun_path) - 1, name.size());
  }
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())};
}

std::vector<FileDescriptor> take_descriptors(const msghdr& message) {
  std::vector<FileDescriptor> taken;
  for (const cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(const_cast<msghdr*>(&message), const_cast<cmsghdr*>(part))) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    std::vector<int> numbers((part->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    std::memcpy(numbers.data(), CMSG_DATA(part), numbers.size() * sizeof(int));
    for (const int number : numbers) taken.emplace_back(number);
  }
  return taken;
}

timespec time_left(Deadline deadline) {
  const auto now = std::chrono::steady_clock::now();
  if (deadline <= now) return {};
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(deadline - now);
  return {seconds.count(), std::chrono::nanoseconds(deadline - now - seconds).count()};
}

FileDescriptor make_counter() {
  FileDescriptor made = make_event();
  if (!made)
    raise(Code::ResourceExhausted, "[SharedMemory] this process has no file descriptors left");
  return made;
}

}  // namespace

std::string random_text() {
  return fmt::format("{:016x}{:016x}", random_number(), random_number());
}

FileDescriptor listen_unix(const std::string& name) {
  FileDescriptor made = make_socket();
  const auto [address, size] = address_of(name);
  if (::bind(made.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      ::listen(made.get(), SOMAXCONN) != 0) {
    const int error = errno;
    raise(code_of_errno(error), "[UnixSocket] can not listen at '{}': {}", name, errno_text(error));
  }
  return made;
}

FileDescriptor connect_unix(const std::string& name) {
  FileDescriptor made = make_socket();
  const auto [address, size] = address_of(name);
  if (::connect(made.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    const int error = errno;
    raise(peer_code(error), "[UnixSocket] cannot connect to '{}': {}", name, errno_text(error));
  }
  if (!is_same_user(made)) {
    raise(Code::PermissionDenied, "[SharedMemory] the process at '{}' runs as another user", name);
  }
  return made;
}

FileDescriptor accept_unix(const FileDescriptor& listener) {
  return FileDescriptor(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

std::pair<FileDescriptor, FileDescriptor> unix_pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, kFlags, 0, ends) != 0) {
    raise(Code::ResourceExhausted, "[UnixSocket] no pair of sockets: {}", errno_text(errno));
  }
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

bool is_same_user(const FileDescriptor& socket) {
  ucred who{};
  socklen_t size = sizeof(who);
  return ::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 &&
         who.uid == ::geteuid();
}

void send_with_descriptors(const FileDescriptor& socket, std::string_view bytes,
                           std::span<const int> descriptors) {
  iovec content{const_cast<char*>(bytes.data()), bytes.size()};
  std::vector<char> control(descriptors.empty() ? 0 : CMSG_SPACE(descriptors.size_bytes()));
  msghdr message{};
  message.msg_iov = &content;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(part), descriptors.data(), descriptors.size_bytes());
  }
  const ssize_t sent = ::sendmsg(socket.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent != static_cast<ssize_t>(bytes.size())) {
    const int error = errno;
    raise(peer_code(error), "[UnixSocket] cannot send to the other process: {}", errno_text(error));
  }
}

WithDescriptors receive_with_descriptors(const FileDescriptor& socket, size_t max_bytes,
                                         size_t max_descriptors, Deadline deadline) {
  const int waited[] = {socket.get()};
  if (!wait_readable(waited, deadline)[0]) {
    raise(Code::DeadlineExceeded, "[UnixSocket] the other process sends nothing");
  }
  WithDescriptors received{std::string(max_bytes, '\0'), {}};
  iovec content{received.bytes.data(), received.bytes.size()};
  std::vector<char> control(CMSG_SPACE(max_descriptors * sizeof(int)));
  msghdr message{};
  message.msg_iov = &content;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t size = ::recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  received.bytes.resize(static_cast<size_t>(std::max<ssize_t>(size, 0)));
  if (size > 0) received.descriptors = take_descriptors(message);
  return received;
}

std::vector<bool> wait_readable(std::span<const int> descriptors, Deadline deadline) {
  std::vector<pollfd> polled;
  for (const int fd : descriptors) polled.push_back({fd, POLLIN, 0});
  for (;;) {
    const timespec left = time_left(deadline);
    const int ready = ::ppoll(polled.data(), polled.size(),
                              deadline == Deadline::max() ? nullptr : &left, nullptr);
    if (ready >= 0 || errno != EINTR) break;
  }
  std::vector<bool> readable;
  for (const pollfd& one : polled) readable.push_back(one.revents != 0);
  return readable;
}

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
  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
    broken_.store(true, std::memory_order_release);
  }
}

void PeerSignals::shut() {
  for (const FileDescriptor& socket : sockets_) ::shutdown(socket.get(), SHUT_RDWR);
}

}  // namespace cohort::internal
