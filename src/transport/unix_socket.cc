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
  if (!made) {
    raise(Code::ResourceExhausted, "[UnixSocket] cannot create a socket: {}", errno_text(errno));
  }
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
    raise(Code::InvalidArgument, "[UnixSocket] the name must have 1 to {} bytes, got {}",
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
    raise(code_of_errno(error), "[UnixSocket] cannot listen at '{}': {}", name, errno_text(error));
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
  // An abstract name has no permissions: a process of any user may listen at it.
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
    raise(Code::ResourceExhausted, "[UnixSocket] cannot create a pair of sockets: {}",
          errno_text(errno));
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
    raise(Code::DeadlineExceeded, "[UnixSocket] the other process sent nothing in time");
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

}  // namespace cohort::internal
