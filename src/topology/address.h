#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cohort/cluster.h"

namespace cohort::internal {

struct HostPort {
  std::string host;  // an IPv6 address without its brackets
  int port = 0;      // 0 = the system chooses
  friend bool operator==(const HostPort&, const HostPort&) = default;
};

// "host:port", cut at the last colon. InvalidArgument when either is missing or the port is not one
// (0 to 65535).
HostPort parse_address(std::string_view address);
// The other way round, with brackets around an IPv6 address.
std::string address_text(std::string_view host, int port);

// The port `base` + `offset`. InvalidArgument when there is none; `operation` is for the message.
int port_at(int base, int offset, std::string_view operation);

// Whether the host is this machine and nobody else reaches it by that name: "localhost", 127.x,
// ::1.
bool is_loopback(std::string_view host);
// Whether some task listens where another machine could reach it.
bool spans_hosts(const ClusterSpec& cluster);

// A session's target.
struct Target {
  std::string protocol;  // "grpc"
  HostPort address;
};
// "grpc://host:port"; a bare "host:port" means the same. Nothing for the in-process target "".
// NotFound for a text that is no target, InvalidArgument for a bad port in one.
std::optional<Target> parse_target(std::string_view target);

}  // namespace cohort::internal
