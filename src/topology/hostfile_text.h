#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cohort::internal {

struct HostSlots {
  std::string host;
  int slots = 1;
  friend bool operator==(const HostSlots&, const HostSlots&) = default;
};

// The hosts of a hostfile: lines "host", "host slots=4" or "host:4", with # comments. `name` is the
// file's, for messages. InvalidArgument with the line's number when one cannot be read, when a host
// comes twice, and when there is none.
std::vector<HostSlots> parse_hostfile(std::string_view text, std::string_view name);

// The same of a file. NotFound when it cannot be opened.
std::vector<HostSlots> read_hostfile(const std::string& path);

// One address per slot: port_base, port_base + 1, ... on each host.
std::vector<std::string> slot_addresses(const std::vector<HostSlots>& hosts, int port_base,
                                        std::string_view operation);

}  // namespace cohort::internal
