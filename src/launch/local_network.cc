#include "launch/local_network.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "base/host_identity.h"
#include "base/raise.h"

namespace cohort::cli {
namespace {

// The port that the system chose, or 0.
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

constexpr char kLoopback[] = "127.0.0.1";
constexpr char kAnyPort[] = "9";  // nothing is sent

std::string text_of(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address->sa_family == AF_INET) {
    const auto* four = reinterpret_cast<const sockaddr_in*>(address);
    inet_ntop(AF_INET, &four->sin_addr, text, sizeof text);
  } else if (address->sa_family == AF_INET6) {
    const auto* six = reinterpret_cast<const sockaddr_in6*>(address);
    inet_ntop(AF_INET6, &six->sin6_addr, text, sizeof text);
  }
  return text;
}

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;
// Null if the name has no address.
AddressList resolved(const std::string& host, const char* port, int family, int type) {
  addrinfo wanted{};
  wanted.ai_family = family;
  wanted.ai_socktype = type;
  addrinfo* first = nullptr;
  const int failed = getaddrinfo(host.c_str(), port, &wanted, &first);
  return {failed == 0 ? first : nullptr, &freeaddrinfo};
}

// The local address of a datagram socket that is connected to `to`. No packet is sent.
std::string local_end(const addrinfo& to) {
  const internal::FileDescriptor fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in local{};
  socklen_t size = sizeof local;
  const bool known = fd && connect(fd.get(), to.ai_addr, to.ai_addrlen) == 0 &&
                     getsockname(fd.get(), reinterpret_cast<sockaddr*>(&local), &size) == 0;
  return known ? text_of(reinterpret_cast<const sockaddr*>(&local)) : "";
}

}  // namespace

HeldPort::HeldPort(const std::string& host)
    : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  if (socket_) number_ = bind_any(socket_.get(), host);
  if (number_ != 0) return;
  internal::raise(Code::ResourceExhausted, "[Run] no port is free at {}: {}", host,
                  std::strerror(errno));
}

std::set<std::string> addresses_of(const std::string& host) {
  std::set<std::string> found;
  const AddressList all = resolved(host, nullptr, AF_UNSPEC, SOCK_STREAM);
  for (const addrinfo* at = all.get(); at != nullptr; at = at->ai_next) {
    found.insert(text_of(at->ai_addr));
  }
  return found;
}

std::map<std::string, std::string> local_interfaces() {
  std::map<std::string, std::string> found;
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return found;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> all(first, &freeifaddrs);
  for (const ifaddrs* at = first; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || (at->ifa_flags & IFF_UP) == 0) continue;
    const std::string address = text_of(at->ifa_addr);
    if (!address.empty()) found[address] = at->ifa_name;
  }
  return found;
}

std::string local_address_towards(const std::string& host) {
  const AddressList all = resolved(host, kAnyPort, AF_INET, SOCK_DGRAM);
  if (!all) {
    internal::raise(Code::NotFound,
                    "[Run] '{}' has no address: is the name right? If only ssh knows the name, "
                    "give this machine's address with --listen",
                    host);
  }
  const std::string address = local_end(*all);
  return address.empty() ? kLoopback : address;
}

std::string local_address() {
  std::string address = kLoopback;
  (void)capture_status([&] { address = local_address_towards(internal::host_name()); });
  return address;
}

}  // namespace cohort::cli
