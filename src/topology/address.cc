#include "topology/address.h"

#include "base/raise.h"
#include "base/text.h"

namespace cohort::internal {
namespace {

constexpr int kLastPort = 65535;

std::string_view without_brackets(std::string_view host) {
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  return bracketed ? host.substr(1, host.size() - 2) : host;
}

bool is_scheme(std::string_view text) { return !text.empty() && has_only_alnum_and("+-.", text); }

}  // namespace

HostPort parse_address(std::string_view address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string_view::npos) {
    raise(Code::InvalidArgument, "[Address] '{}' has no port; expected host:port",
          excerpt(address));
  }
  const std::string_view port_text = address.substr(colon + 1);
  const std::optional<int> port = parse_non_negative(port_text);
  if (!port || *port > kLastPort) {
    raise(Code::InvalidArgument,
          "[Address] the port '{}' of '{}' is not a number from 0 to 65535; expected host:port",
          excerpt(port_text), excerpt(address));
  }
  const std::string_view host = without_brackets(address.substr(0, colon));
  if (host.empty()) {
    raise(Code::InvalidArgument, "[Address] '{}' has no host; expected host:port",
          excerpt(address));
  }
  return {std::string(host), *port};
}

std::string address_text(std::string_view host, int port) {
  const bool bare_ipv6 = host.find(':') != std::string_view::npos && host.front() != '[';
  return bare_ipv6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

int port_at(int base, int offset, std::string_view operation) {
  if (base > 0 && offset <= kLastPort - base) return base + offset;
  raise(Code::InvalidArgument,
        "[{}] port {} + {} does not exist; choose a port from 1 to 65535 that leaves room for the "
        "tasks of a host",
        operation, base, offset);
}

std::string task_name(const std::string& job, int index) {
  return fmt::format("/job:{}/replica:0/task:{}", job, index);
}

bool is_loopback(std::string_view host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

bool spans_hosts(const ClusterSpec& cluster) {
  for (const ClusterDef::Job& job : cluster.as_cluster_def().jobs) {
    for (const ClusterDef::Task& task : job.tasks) {
      const std::string_view address = task.address;
      if (!is_loopback(without_brackets(address.substr(0, address.rfind(':'))))) return true;
    }
  }
  return false;
}

std::optional<Target> parse_target(std::string_view target) {
  if (target.empty()) return std::nullopt;
  const size_t mark = target.find("://");
  const std::string_view scheme = mark == std::string_view::npos ? "grpc" : target.substr(0, mark);
  const std::string_view address =
      mark == std::string_view::npos ? target : target.substr(mark + 3);
  if (!is_scheme(scheme) || address.find(':') == std::string_view::npos ||
      address.find_first_of("/ \t\n") != std::string_view::npos) {
    raise(Code::NotFound,
          "[Session] '{}' is not a target; expected grpc://host:port, or \"\" for this process",
          excerpt(target));
  }
  return Target{std::string(scheme), parse_address(address)};
}

}  // namespace cohort::internal
