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

// Splits "host:port" at the last colon. Throws InvalidArgument if the host is missing or the port
// is not a number from 0 to 65535.
HostPort parse_address(std::string_view address);
// "host:port", with brackets around an IPv6 address.
std::string address_text(std::string_view host, int port);

// The port `base` + `offset`. Throws InvalidArgument, in the name of `operation`, if that is not a
// port.
int port_at(int base, int offset, std::string_view operation);

// "/job:ps/replica:0/task:1"
std::string task_name(const std::string& job, int index);

// Whether the name means the machine that uses it: "localhost", 127.x, ::1.
bool is_loopback(std::string_view host);
// Whether another machine could reach some task of the cluster.
bool spans_hosts(const ClusterSpec& cluster);

// A session's target.
struct Target {
  std::string protocol;  // "grpc"
  HostPort address;
};
// Parses "grpc://host:port"; a bare "host:port" means the same, and the in-process target "" gives
// nothing. Throws NotFound for a text that is not a target, InvalidArgument for a bad port.
std::optional<Target> parse_target(std::string_view target);

}  // namespace cohort::internal
