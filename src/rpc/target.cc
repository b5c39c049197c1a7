#include "rpc/target.h"

#include <algorithm>
#include <cctype>

#include "base/raise.h"
#include "topology/address.h"

namespace cohort::internal {

void check_target(const std::string& address, const Credentials& credentials) {
  const HostPort target = parse_address(address);
  const bool is_host = std::all_of(target.host.begin(), target.host.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view(".-_:%").find(c) != std::string_view::npos;
  });
  if (!is_host || target.port == 0) {
    raise(Code::InvalidArgument, "[Connect] '{}' is no host and port that can be connected to",
          address);
  }
  if (credentials.has_certificates() || credentials.token.empty() || credentials.insecure) return;
  if (!is_loopback(target.host)) {
    raise(
        Code::FailedPrecondition,
        "[Connect] without certificates the token would go to {} for everybody to read; give both "
        "sides certificates, or set Credentials::insecure",
        address);
  }
}

}  // namespace cohort::internal
