#include "cli/held_port.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "base/raise.h"

namespace cohort::cli {
namespace {

// The port that was chosen; 0 when none was.
int bind_any(int socket, const std::string& host) {
  const int on = 1;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t size = sizeof address;
  const bool bound = inet_pton(AF_INET, host.c_str(), &address.sin_addr) == 1 &&
                     setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
                     bind(socket, reinterpret_cast<const sockaddr*>(&address), size) == 0 &&
                     getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  return bound ? ntohs(address.sin_port) : 0;
}

}  // namespace

HeldPort::HeldPort(const std::string& host)
    : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  if (socket_) number_ = bind_any(socket_.get(), host);
  if (number_ != 0) return;
  internal::raise(Code::ResourceExhausted, "[Run] no port can be had at {}: {}", host,
                  std::strerror(errno));
}

}  // namespace cohort::cli
