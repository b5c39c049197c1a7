#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cohort::internal {

// A host and how many tasks run on it.
struct HostSlots {
  std::string host;
  int slots = 1;
  friend bool operator==(const HostSlots&, const HostSlots&) = default;
};

// The hosts of a hostfile: lines "host", "host slots=4" or "host:4", with # comments. `name` is the
// name of the file, for messages. Throws InvalidArgument with the number of a line that cannot be
// read or repeats a host, and if the text names none.
std::vector<HostSlots> parse_hostfile(std::string_view text, std::string_view name);

// The same for the contents of a file. Throws NotFound if the file cannot be opened.
std::vector<HostSlots> read_hostfile(const std::string& path);

// One address per slot: port_base, port_base + 1, ... on each host.
std::vector<std::string> slot_addresses(const std::vector<HostSlots>& hosts, int port_base,
                                        std::string_view operation);

}  // namespace cohort::internal
