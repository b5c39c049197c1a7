#include "cli/route.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <climits>
#include <memory>

#include "base/file_descriptor.h"
#include "base/raise.h"

namespace cohort::cli {
namespace {

constexpr char kLoopback[] = "127.0.0.1";
constexpr char kAnyPort[] = "9";  // nothing is sent

std::string text_of(const sockaddr_in& address) {
  char text[INET_ADDRSTRLEN] = {};
  inet_ntop(AF_INET, &address.sin_addr, text, sizeof text);
  return text;
}

// Of a socket that is connected, without a packet being sent.
std::string local_end(const addrinfo& to) {
  const internal::FileDescriptor fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in own{};
  socklen_t size = sizeof own;
  const bool known = fd && connect(fd.get(), to.ai_addr, to.ai_addrlen) == 0 &&
                     getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &size) == 0;
  return known ? text_of(own) : "";
}

}  // namespace

std::string own_address_towards(const std::string& host) {
  addrinfo wanted{};
  wanted.ai_family = AF_INET;
  wanted.ai_socktype = SOCK_DGRAM;
  addrinfo* first = nullptr;
  if (getaddrinfo(host.c_str(), kAnyPort, &wanted, &first) != 0) {
    internal::raise(
        Code::NotFound,
        "[Run] '{}' has no address: is the name right? Where only ssh knows it, --listen "
        "gives this machine's address",
        host);
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(first, &freeaddrinfo);
  const std::string address = local_end(*first);
  return address.empty() ? kLoopback : address;
}

std::string own_address() {
  char name[HOST_NAME_MAX + 1] = {};
  std::string address;
  const Status known = capture_status([&] {
    if (gethostname(name, HOST_NAME_MAX) == 0) address = own_address_towards(name);
  });
  return known.ok() && !address.empty() ? address : kLoopback;
}

}  // namespace cohort::cli
