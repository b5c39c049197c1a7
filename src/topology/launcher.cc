#include "topology/launcher.h"

#include <algorithm>

#include "base/raise.h"
#include "topology/hostfile_text.h"

namespace cohort::internal {
namespace {

void check_process(const LaunchedProcess& process) {
  if (process.world_size >= 1 && process.rank < process.world_size && process.local_size >= 1 &&
      process.local_rank < process.local_size && process.local_size <= process.world_size) {
    return;
  }
  raise(Code::InvalidArgument,
        "[{}] the variables do not fit together: rank {} of {}, on this host {} of {}",
        process.launcher, process.rank, process.world_size, process.local_rank, process.local_size);
}

// The hosts with as many slots as processes are on them: filled in order until all have a place.
std::vector<HostSlots> filled(std::vector<HostSlots> hosts, const LaunchedProcess& process) {
  int left = process.world_size;
  std::vector<HostSlots> used;
  for (const HostSlots& host : hosts) {
    if (left == 0) break;
    used.push_back({host.host, std::min(host.slots, left)});
    left -= used.back().slots;
  }
  if (left > 0) {
    raise(Code::FailedPrecondition,
          "[{}] the hostfile has {} slots, but there are {} processes; give it the slots that the "
          "launcher used",
          process.launcher, process.world_size - left, process.world_size);
  }
  return used;
}

void check_place(const std::vector<HostSlots>& hosts, const LaunchedProcess& process) {
  int first = 0;
  for (const HostSlots& host : hosts) {
    if (process.rank < first + host.slots) {
      if (process.rank - first == process.local_rank && host.slots == process.local_size) return;
      break;
    }
    first += host.slots;
  }
  raise(Code::FailedPrecondition,
        "[{}] rank {} is number {} of {} on its host, but not by the hostfile; the processes must "
        "fill the hosts in the file's order, slot by slot",
        process.launcher, process.rank, process.local_rank, process.local_size);
}

}  // namespace

std::vector<std::string> launched_addresses(const LaunchedProcess& process,
                                            const LauncherOptions& options) {
  check_process(process);
  if (!options.hostfile.empty()) {
    const std::vector<HostSlots> hosts = filled(read_hostfile(options.hostfile), process);
    check_place(hosts, process);
    return slot_addresses(hosts, options.port_base, process.launcher);
  }
  if (process.local_size != process.world_size) {
    raise(Code::FailedPrecondition,
          "[{}] {} of {} processes are on this host, and the variables do not name the others; "
          "give the hostfile",
          process.launcher, process.local_size, process.world_size);
  }
  return slot_addresses({{process.this_host, process.world_size}}, options.port_base,
                        process.launcher);
}

}  // namespace cohort::internal
